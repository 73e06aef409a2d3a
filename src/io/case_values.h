// The numbers of the generated test cases. Each value is a pure function of (kind, seed, position), in
// integer arithmetic and one rounded multiplication, so every machine and every number of threads makes
// the same file.
#pragma once

#include <cstdint>
#include <optional>
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
    threshold, // scores at every border of the contract f32, and within three floats of it; N up to 2048
    digits,    // numbers and scores at every border of the contract fixed, and within three steps of it
};

constexpr int64_t kMostThresholdTokens = 2048; // of kind threshold, whose values are too large for longer sums

std::optional<CaseKind> case_kind(const std::string& name);
std::vector<std::string> case_kind_names();

struct CaseRecipe {
    Problem problem;
    CaseKind kind = CaseKind::uniform;
    uint64_t seed = 0;
};

// Values [first, first + count) of the case's data (the floats after the header).
void fill_case_values(const CaseRecipe& recipe, size_t first, size_t count, float* to);

} // namespace hw4
