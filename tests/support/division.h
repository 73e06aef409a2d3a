// Simulates how blocks divide jobs (src/gpu/common/shares.h), job by job and block by block.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "src/gpu/common/shares.h"

namespace hw4::gpu {

// A part of a job, and the time at which its block begins it, in tiles.
struct Turn {
    unsigned first;
    unsigned end;
    int64_t block;
    int64_t index; // among the block's parts
    double time;
};

struct Division {
    std::map<int64_t, std::vector<Turn>> of_job; // ordered by tiles
    std::vector<double> ends;                    // for each block

    // Adds the next block, which begins at `time` and does `parts` parts; tile_time gives the time of a job's tile.
    template <class PartAt, class TileTime>
    void add_block(double time, uint32_t parts, const PartAt& part_at, const TileTime& tile_time) {
        const auto block = static_cast<int64_t>(ends.size());
        for (uint32_t i = 0; i < parts; ++i) {
            const JobPart part = part_at(i);
            std::vector<Turn>& turns = of_job[part.job];
            const auto after =
                std::find_if(turns.begin(), turns.end(), [&](const Turn& t) { return t.first > part.first; });
            turns.insert(after, {part.first, part.end, block, i, time});
            time += (part.end - part.first) * tile_time(part.job);
        }
        ends.push_back(time);
    }
    template <class PartAt>
    void add_block(double time, uint32_t parts, const PartAt& part_at) {
        add_block(time, parts, part_at, [](uint32_t) { return 1.0; });
    }

    // The time between the first and the last end of a block.
    double spread() const {
        return *std::max_element(ends.begin(), ends.end()) - *std::min_element(ends.begin(), ends.end());
    }
};

// Each of the jobs 0, 1, ... has all its tiles once, in order.
template <class TilesOf>
void expect_every_tile_once(const Division& division, int64_t jobs, const TilesOf& tiles_of) {
    ASSERT_EQ(division.of_job.size(), static_cast<size_t>(jobs));
    EXPECT_EQ(division.of_job.begin()->first, 0);
    EXPECT_EQ(division.of_job.rbegin()->first, jobs - 1);
    for (const auto& job : division.of_job) {
        unsigned next = 0;
        for (const Turn& turn : job.second) {
            EXPECT_EQ(turn.first, next);
            EXPECT_GT(turn.end, turn.first);
            next = turn.end;
        }
        EXPECT_EQ(next, tiles_of(static_cast<uint32_t>(job.first)));
    }
}

// Kernels rely on this: a block that continues a job finds its first tiles done by the next block at that time, or
// `later` tiles after it. `check` examines each such part further.
template <class Check>
void expect_handover_from_next_block(const Division& division, double later, const Check& check) {
    for (const auto& job : division.of_job) {
        ASSERT_LE(job.second.size(), 2u);
        if (job.second.size() == 1) continue;
        const Turn& head = job.second[0];
        const Turn& rest = job.second[1];
        EXPECT_EQ(head.block, rest.block + 1);
        EXPECT_LE(head.time + (head.end - head.first), rest.time + later); // a tile takes no longer than 1
        check(head);
    }
}

} // namespace hw4::gpu
