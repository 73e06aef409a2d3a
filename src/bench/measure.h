// A cell is measured: every pass that is wanted, with its memory, and whether the result is right.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/bench/memory_timeline.h"
#include "src/bench/row.h"
#include "src/bench/workbench.h"

namespace hw4::bench {

// The operands of the cell that is measured, which stay for the next one: implementations of a sweep take the same
// sizes one after the other. Those of forward and those of backward are two sets.
class KeptData {
public:
    // Lets go of what is not of this cell's problem: before anybody asks how much memory is free.
    void release_others(const Cell& cell);

    // Valid until the next call.
    const CaseData& of(const Cell& cell, const Operation& operation);

    size_t bytes() const; // of what is kept

private:
    std::optional<Cell> made_for_;
    std::array<std::optional<CaseData>, 2> data_; // of kOperations
};

// Called as a measurement goes on: what it is at, and how many seconds more the pass takes.
using Report = std::function<void(const std::string& what, double seconds_left)>;
constexpr double kUnknown = -1; // seconds

// Samples of a subject by the rules, after their warm-up.
struct Samples {
    int launches = 1; // in each
    std::vector<double> seconds;
};
Samples take_samples(
    Workbench& workbench, Subject& subject, const Rules& rules,
    const Report& report = [](const std::string&, double) {});

// What the other samples take if each takes as long as these; of none, `seconds` is what one takes.
double seconds_left(const Rules& rules, int samples, double seconds);

// What cannot run, or fails, is told in the row: the cells after it may do better. `kept`: of the cells before it.
// `memory`: gets a track for each pass that there is here, of one more run that is not timed.
Row measure(const Cell& cell, Workbench& workbench, KeptData& kept, std::vector<MemoryTrack>* memory = nullptr,
            const Report& report = nullptr);

} // namespace hw4::bench
