// Memory over time, for one run of each pass of each cell, in a form that other programs draw.
#pragma once

#include <string>
#include <vector>

#include "src/bench/memory_count.h"

namespace hw4::bench {

struct MemoryTrack {
    std::string cell; // in words
    std::string pass;
    std::vector<MemoryEvent> events;
};

// A growing file of tracks: its start, each track, its end. It is a snapshot as torch.cuda.memory._snapshot() returns
// it, for https://pytorch.org/memory_viz: the tracks follow each other in one picture. Each allocation has its own
// segment, and its stack is its purpose, the pass and the cell.
class MemoryPicture {
public:
    std::string start() const;
    std::string next(const MemoryTrack& track);
    std::string end() const;

private:
    double seconds_ = 0; // the duration of all tracks so far
};

} // namespace hw4::bench
