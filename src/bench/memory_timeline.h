// Memory over time, of one run of each pass of each cell, for the programs that draw it.
#pragma once

#include <string>
#include <vector>

#include "src/bench/cell.h"
#include "src/bench/memory_log.h"

namespace hw4::bench {

struct MemoryTrack {
    Cell cell;
    Pass pass;
    std::vector<MemoryEvent> events;
};

// A file of tracks that grows: its start, each track, its end. Either of
// - a snapshot as torch.cuda.memory._snapshot() gives it, for https://pytorch.org/memory_viz: the tracks one after the
//   other, so that one picture has them all. Each allocation is in a segment of its own, and its stack is what it is
//   for, the pass and the cell;
// - a trace of counters, for https://ui.perfetto.dev: every track begins at 0, so that they stand side by side.
class MemoryPicture {
public:
    enum class Form { pickle, counters };

    explicit MemoryPicture(Form form) : form_(form) {}

    std::string start() const;
    std::string next(const MemoryTrack& track);
    std::string end() const;

private:
    Form form_;
    double seconds_ = 0; // that the tracks of a snapshot have taken so far
};

} // namespace hw4::bench
