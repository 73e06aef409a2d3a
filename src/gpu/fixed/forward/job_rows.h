// How many jobs (shares.h) a launch has, and whether groups of rows share a block. No CUDA here, so that it can be
// tested anywhere.
#pragma once

#include <cstdint>

#include "src/base/inline.h"

namespace hw4::gpu::fixed_point {

constexpr int kGroupRows = 64; // query rows of a group

// Jobs of a unit: each as many rows as a block's groups take; the last may have fewer.
HW4_INLINE int64_t jobs_for(int64_t queries, int groups) {
    return (queries + groups * kGroupRows - 1) / (groups * kGroupRows);
}

// Groups that a unit's jobs have room for and its rows do not fill: of the last job or, under a mask, of the first,
// which has the fewest tiles.
HW4_INLINE int64_t missing_groups(int64_t queries, int groups) {
    return jobs_for(queries, groups) * groups - jobs_for(queries, 1);
}

// Groups of a block share its tiles, and so wait for the slowest of them; and the last job of a unit may leave some
// of them without rows. That pays where sequences are long, where few rows are missing, and where there is a job for
// every multiprocessor. What it brought against groups apart when it was chosen: at d = 64, N = 256, which lacks a
// third, -5 %; N = 512 and 1024, which lack a ninth of theirs, +7 and +6 %; at d = 32, N = 512, which lacks none, +12
// %.
inline bool takes_joint(int64_t units, int64_t keys, int64_t queries, int groups, int multiprocessors) {
    constexpr int64_t kLongSequence = 512;
    const int64_t jobs = jobs_for(queries, groups);
    const int64_t missing = jobs * groups * kGroupRows - queries;
    return keys >= kLongSequence && missing <= queries / 8 && units * jobs >= multiprocessors;
}

// Whether wgmma_whole.cuh is better for such heads than groups apart: its jobs have three groups, and not too many of
// them may be without rows, at d = 32 less than a third, at 64 a third too. What it took of the time of groups apart
// when it was chosen, for many heads, at 64: N = 64 1.29, 100 and 128 0.94, 130 0.83, 192 0.84, 256 0.97, 384 0.81, 512
// 0.83, 1000 0.87, 1800 0.87; at 32: N = 64 1.44, 128 1.02, 160 0.84, 256 1.08, 320 0.93, 512 0.93, 1000 0.92.
inline bool takes_whole(int64_t keys, int64_t queries, int64_t dim) {
    constexpr int kGroups = 3;
    constexpr int64_t kFewKeys = 64; // up to which it was not tried
    const int64_t lacking = kGroups * missing_groups(queries, kGroups);
    const int64_t places = kGroups * jobs_for(queries, kGroups);
    return keys > kFewKeys && (dim == 64 ? lacking <= places : lacking < places);
}

} // namespace hw4::gpu::fixed_point
