// The numbers of the generated test cases. Each value is a pure function of (kind, seed, position), in integer
// arithmetic and one rounded multiplication, so every machine and every number of threads creates the same file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

enum class CaseKind {
    uniform,   // everything in [-3, 3), as in the course's cases
    equal,     // all keys the same: all scores of a row equal
    negative,  // every score negative
    spread,    // weights spread over more than 2^+-100
    denormal,  // Q and V denormal
    dominant,  // one key outweighs all others
    vzero,     // V with exact zeros of both signs
    huge,      // Q and K up to +-1e4: scores far beyond the integers a float holds
    fading,    // scores rise with the key index while V fades to zero: old sums end as denormals
    climb,     // scores climb from -1e8 to 1e8: the reference changes its form twice
    brink,     // scores creep past -2^21 (odd batches) or 2^21 (even ones), where the reference changes its form
    threshold, // scores at every threshold of the contract f32, and within three floats of it; N up to 2048
    digits,    // numbers and scores at every threshold of the contract fixed, and within three steps of it
    normal,    // everything normal, with the given standard deviation
    stray,     // normal, every 500th query times the number: 60 passes 72 base-2 units, 1e6 passes 2^21
    sink,      // normal, one key times 100: the number is its place, from 0, the first, to 1, the last
    low,       // scores near -112 base-2 units
    gzero,     // dO exact zeros of both signs
    gtiny,     // dO denormal
    glimit,    // dO so large that dK may come near the end of its domain
};

constexpr int64_t kMostThresholdTokens = 2048; // for the kind threshold: its values are too large for longer sums

// A kind and its number, if it takes one.
struct Distribution {
    CaseKind kind;
    double number;

    // With the kind's default number; implicit, since most kinds have none.
    Distribution(CaseKind k); // cppcheck-suppress noExplicitConstructor
    Distribution(CaseKind k, double n) : kind(k), number(n) {}
};

// "spread", "normal:3", and "normal" with its default number. Throws Error (usage).
Distribution distribution_of(const std::string& text);
std::string spelling_of(const Distribution& values);
std::vector<std::string> case_kind_names(); // with their default numbers

struct CaseRecipe {
    Problem problem;
    Distribution values = CaseKind::uniform;
    uint64_t seed = 0;
};

// Values [first, first + count) of the case's data (the floats after the header).
void fill_case_values(const CaseRecipe& recipe, size_t first, size_t count, float* to);

// The same on all processors.
void fill_in_parallel(const CaseRecipe& recipe, size_t first, size_t count, float* to);

} // namespace hw4
