// What a track of memory over time says of its run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "src/bench/memory_timeline.h"

namespace hw4::test {

// The most that was in use at once. What is left at the end must be nothing.
inline size_t peak_of(const bench::MemoryTrack& track) {
    using Kind = bench::MemoryEvent::Kind;
    size_t in_use = 0;
    size_t peak = 0;
    for (const bench::MemoryEvent& event : track.events) {
        if (event.kind == Kind::taken) in_use += event.allocation.bytes;
        if (event.kind == Kind::given_back) in_use -= event.allocation.bytes;
        peak = std::max(peak, in_use);
    }
    EXPECT_EQ(in_use, 0);
    return peak;
}

} // namespace hw4::test
