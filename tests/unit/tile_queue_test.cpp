#include "src/gpu/f32/forward/tile_queue.h"

#include <gtest/gtest.h>

namespace hw4::gpu {
namespace {

Queue queue_of(unsigned rows, unsigned tiles, unsigned blocks, bool equal = true) {
    Queue queue;
    fill(queue, rows, tiles, blocks, equal);
    return queue;
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

TEST(TileQueue, HasWholeRowsOnlyWhereTheyAreFewOrDifferInLength) {
    for (const unsigned rows : {1u, 263u, 395u, 512u, 10000u})
        for (const bool equal : {false, true}) {
            const Queue queue = queue_of(rows, 64, 264, equal);
            EXPECT_EQ(queue.whole == rows && queue.length() == rows, !equal || rows < 396) << rows << " " << equal;
        }
}

const Device kH200{90, 232448, 132};
const Device kRtx3090{86, 101376, 82};

// Large blocks where they divide evenly, small ones where a few large ones would leave multiprocessors idle.
TEST(SmallTiling, IsTakenForFewRowsOrLittleMemory) {
    constexpr size_t kBytes = 104000;
    for (const bool drawn : {false, true}) {
        EXPECT_FALSE(takes_small_tiling({512, 2}, {1024, 3}, kBytes, drawn, kH200)); // t28: 4 waves against 8 * 0.54
        EXPECT_TRUE(takes_small_tiling({160, 2}, {320, 3}, kBytes, drawn, kH200));   // t10: 2 waves against 3 * 0.54
        EXPECT_FALSE(takes_small_tiling({132, 2}, {264, 3}, kBytes, drawn, kH200));  // 1 against 2 * 0.54
        EXPECT_TRUE(takes_small_tiling({60, 2}, {120, 3}, kBytes, drawn, kH200));    // 1 against 1 * 0.54
        EXPECT_TRUE(takes_small_tiling({512, 2}, {1024, 3}, kBytes, drawn, kRtx3090));
    }
    EXPECT_TRUE(takes_small_tiling({400, 2}, {660, 3}, kBytes, false, kH200)); // 4 waves against 5 * 0.54
    EXPECT_FALSE(takes_small_tiling({400, 2}, {792, 3}, kBytes, true, kH200)); // 3.03 against 6 * 0.54
}

TEST(SmallTiling, IsTakenUnderAMaskByHowLongRowsAre) {
    const auto is_small = [](int64_t large, int64_t small) {
        return takes_small_tiling({large, 2, true, 0.5}, {small, 3, true, 0.5}, 104000, true, kH200);
    };
    EXPECT_FALSE(is_small(512, 1024)); // 1.94 waves against 3.88 * 0.54
    EXPECT_FALSE(is_small(264, 528));  // 1 against 2 * 0.54
    EXPECT_TRUE(is_small(160, 320));   // 1, the longest, against 1.21 * 0.54
}

} // namespace
} // namespace hw4::gpu
