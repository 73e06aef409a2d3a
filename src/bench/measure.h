// Measures a cell: every requested pass, with its memory, and whether the result is right.
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

// The operands of the measured cell, kept for the next one, because the implementations of a sweep take the same sizes
// one after another. Forward and backward have separate sets.
class KeptData {
public:
    // Frees data of other problems; call before asking how much memory is free.
    void release_others(const Cell& cell);

    // Valid until the next call.
    const CaseData& of(const Cell& cell, const Operation& operation);

    size_t bytes() const; // of the kept data

private:
    std::optional<Cell> made_for_;
    std::array<std::optional<CaseData>, 2> data_; // in the order of kOperations
};

// Called during a measurement, with the current step.
using Report = std::function<void(const std::string& what)>;

// Samples of a subject by the rules, after the warm-up.
struct Samples {
    int launches = 1; // per sample
    std::vector<double> seconds;
};
Samples take_samples(
    Workbench& workbench, Subject& subject, const Rules& rules, const Report& report = [](const std::string&) {});

// Errors become part of the row: the cells after it may do better. `kept`: data of earlier cells. `memory`: gets a
// track for each pass that exists here, from one more run that is not timed.
Row measure(const Cell& cell, Workbench& workbench, KeptData& kept, std::vector<MemoryTrack>* memory = nullptr,
            const Report& report = nullptr);

} // namespace hw4::bench
