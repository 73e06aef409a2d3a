// Memory over time, of one run of each pass of each cell, for the programs that draw it.
#pragma once

#include <string>
#include <vector>

#include "src/bench/cell.h"
#include "src/bench/memory_count.h"

namespace hw4::bench {

struct MemoryTrack {
    Cell cell;
    Pass pass;
    std::vector<MemoryEvent> events;
};

// A file of tracks that grows: its start, each track, its end. It is a snapshot as torch.cuda.memory._snapshot() gives
// it, for https://pytorch.org/memory_viz: the tracks one after the other, so that one picture has them all. Each
// allocation is in a segment of its own, and its stack is what it is for, the pass and the cell.
class MemoryPicture {
public:
    std::string start() const;
    std::string next(const MemoryTrack& track);
    std::string end() const;

private:
    double seconds_ = 0; // that the tracks have taken so far
};

} // namespace hw4::bench
