// A cell is measured: every pass that is wanted, with its memory, and whether the result is right.
#pragma once

#include <optional>

#include "src/bench/kept_data.h"
#include "src/bench/memory_timeline.h"
#include "src/bench/row.h"
#include "src/bench/workbench.h"

namespace hw4::bench {

// Samples of a subject by the rules, after their warm-up.
struct Samples {
    int launches = 1; // in each
    std::vector<double> seconds;
};
Samples take_samples(Workbench& workbench, Subject& subject, const Rules& rules);

// The row of a cell that nobody could measure: its sizes do not fit together.
std::optional<Row> refused(const Cell& cell);

// What cannot run, or fails, is told in the row: the cells after it may do better. `kept`: of the cells before it.
// `memory`: gets a track for each pass that there is here, of one more run that is not timed.
Row measure(const Cell& cell, Workbench& workbench, KeptData& kept, std::vector<MemoryTrack>* memory = nullptr);

} // namespace hw4::bench
