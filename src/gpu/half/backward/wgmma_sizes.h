// Tiles of wgmma's backward kernel, and how its sums of dQ lie in memory.
#pragma once

namespace hw4::gpu::half_backward {

constexpr int kSumThreads = 128; // of a group

// Two groups with 64 of the keys each share a tile of pairs. Of dQ each has 64 queries and all columns, or, of tiles of
// 64 queries, half of the columns.
template <int kDim_, int kQueries_>
struct Sizes {
    static constexpr int kDim = kDim_; // smaller ones have columns of zeros
    static constexpr int kQueries = kQueries_;
    static constexpr int kKeys = 128;
    static constexpr int kGroups = 2;
    static constexpr bool kSplitsColumns = kQueries == 64;
    static constexpr int kGroupSums = kQueries * kDim / (kGroups * kSumThreads); // of a thread
    static constexpr int kChunk = kGroupSums * kSumThreads;                      // of a group: [four][thread][4]

    static_assert(kGroupSums == 32, "64 rows of 64 columns");
};

using Sizes64 = Sizes<64, 128>;
using Sizes128 = Sizes<128, 64>;

} // namespace hw4::gpu::half_backward
