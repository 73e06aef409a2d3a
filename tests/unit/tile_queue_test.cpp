#include "src/gpu/f32/forward/tile_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace hw4::gpu {
namespace {

std::vector<unsigned> ends(const Queue& queue) { return {queue.ends, queue.ends + queue.pieces}; }

Queue queue_of(unsigned rows, unsigned tiles, unsigned blocks, bool equal = true) {
    Queue queue;
    fill(queue, rows, tiles, blocks, equal);
    return queue;
}

TEST(TileQueue, BeginsWithWholeRowsAndEndsWithSmallPieces) {
    const Queue t24 = queue_of(3200, 64, 264);
    EXPECT_EQ(t24.whole, 3200u - 528u);
    EXPECT_EQ(t24.cut, 528u);
    EXPECT_EQ(ends(t24), (std::vector<unsigned>{43, 57, 62, 64}));
    EXPECT_EQ(t24.length(), t24.whole + 4 * t24.cut);
    const Queue t28 = queue_of(512, 256, 264);
    EXPECT_EQ(t28.whole, 0u);
    EXPECT_EQ(ends(t28), (std::vector<unsigned>{171, 228, 247, 253, 256}));
    EXPECT_EQ(ends(queue_of(400, 64, 264)), (std::vector<unsigned>{32, 48, 56, 60, 62, 64})); // halves
    EXPECT_EQ(ends(queue_of(400, 1, 264)), (std::vector<unsigned>{1}));
    EXPECT_EQ(queue_of(263, 64, 264).cut, 263u); // fewer rows than blocks
    EXPECT_EQ(queue_of(1, 1, 264).length(), 1u);
}

TEST(TileQueue, HasEveryTileOnceWhateverTheNumbers) {
    for (unsigned tiles = 1; tiles < 5000; tiles += tiles < 100 ? 1 : 97)
        for (const unsigned rows : {1u, 2u, 3u, 5u, 264u, 500u, 528u, 10000u}) {
            const Queue queue = queue_of(rows, tiles, 264);
            EXPECT_EQ(queue.whole + queue.cut, rows);
            ASSERT_GE(queue.pieces, 1u);
            ASSERT_LE(queue.pieces, kMostPieces);
            EXPECT_EQ(queue.ends[queue.pieces - 1], tiles);
            for (unsigned n = 0; n < queue.pieces; ++n)
                EXPECT_GT(queue.ends[n], n == 0 ? 0 : queue.ends[n - 1]) << tiles << " " << rows;
        }
}

TEST(TileQueue, HasWholeRowsOnlyWhereTheyDifferInLength) {
    for (const unsigned rows : {1u, 263u, 512u, 10000u}) {
        const Queue queue = queue_of(rows, 64, 264, false);
        EXPECT_EQ(queue.whole, rows);
        EXPECT_EQ(queue.length(), rows);
    }
}

TEST(TileQueue, IsWorthItFromThreeRowsForTwoBlocks) {
    EXPECT_TRUE(is_worth_a_queue(396, 264));
    EXPECT_FALSE(is_worth_a_queue(395, 264));
}

const Device kH200{90, 232448, 132};
const Device kRtx3090{86, 101376, 82};

// Large blocks where they come out even, small ones where a few large ones would leave multiprocessors waiting.
TEST(SmallTiling, IsTakenForFewRowsOrLittleMemory) {
    constexpr size_t kBytes = 104000;
    for (const bool drawn : {false, true}) {
        EXPECT_FALSE(takes_small_tiling({512, 2}, {1024, 3}, kBytes, drawn, kH200)); // t28: 4 turns against 8 * 0.54
        EXPECT_TRUE(takes_small_tiling({160, 2}, {320, 3}, kBytes, drawn, kH200));   // t10: 2 turns against 3 * 0.54
        EXPECT_FALSE(takes_small_tiling({132, 2}, {264, 3}, kBytes, drawn, kH200));  // 1 against 2 * 0.54
        EXPECT_TRUE(takes_small_tiling({60, 2}, {120, 3}, kBytes, drawn, kH200));    // 1 against 1 * 0.54
        EXPECT_TRUE(takes_small_tiling({512, 2}, {1024, 3}, kBytes, drawn, kRtx3090));
    }
    EXPECT_TRUE(takes_small_tiling({400, 2}, {660, 3}, kBytes, false, kH200)); // 4 turns against 5 * 0.54
    EXPECT_FALSE(takes_small_tiling({400, 2}, {792, 3}, kBytes, true, kH200)); // 3.03 against 6 * 0.54
}

TEST(SmallTiling, IsTakenUnderAMaskByHowLongRowsAre) {
    const auto is_small = [](int64_t large, int64_t small) {
        return takes_small_tiling({large, 2, true, 0.5}, {small, 3, true, 0.5}, 104000, true, kH200);
    };
    EXPECT_FALSE(is_small(512, 1024)); // 1.94 turns against 3.88 * 0.54
    EXPECT_FALSE(is_small(264, 528));  // 1 against 2 * 0.54
    EXPECT_TRUE(is_small(160, 320));   // 1, the longest, against 1.21 * 0.54
}

} // namespace
} // namespace hw4::gpu
