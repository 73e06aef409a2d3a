// Two files of results beside each other: what became faster or slower, the noise considered.
#pragma once

#include <string>
#include <vector>

#include "src/bench/row.h"

namespace hw4::bench {

// lost: it ran before and does not now, or its result is wrong now.
enum class Verdict { same, faster, slower, lost };

constexpr const char* name_of(Verdict verdict) {
    return verdict == Verdict::same     ? "same"
           : verdict == Verdict::faster ? "faster"
           : verdict == Verdict::slower ? "slower"
                                        : "lost";
}

struct Compared {
    std::string cell; // in words
    Pass pass;
    double before; // medians, seconds
    double after;  // 0: lost
    Verdict verdict;
};

// Faster or slower where the medians differ by more than the threshold and the samples from the 20th to the 80th of a
// hundred do not overlap.
Verdict verdict_of(const std::vector<double>& before, const std::vector<double>& after, double threshold);

// Of every pass that ran before, on the same cell in both files, whatever the counts of samples are.
std::vector<Compared> compare(const std::vector<Row>& before, const std::vector<Row>& after, double threshold);

// The cells, in words, that the other file does not have.
std::vector<std::string> cells_without_match(const std::vector<Row>& rows, const std::vector<Row>& others);

// A line for each and one with the counts.
std::string comparison_text(const std::vector<Compared>& list);

// "2 cells are in old.json alone: naive B 8 H 1 N 64 d 64, ...", the first few by their words; nothing where none is.
std::string alone_text(const std::vector<std::string>& cells, const std::string& file);

} // namespace hw4::bench
