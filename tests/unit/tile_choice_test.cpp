#include "src/gpu/f32/forward/tile_queue.h"

#include <gtest/gtest.h>

namespace hw4::gpu {
namespace {

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
    const auto rows = [](int64_t count, int fitting) { return RowBlocks{count, fitting, true, 0.5}; };
    EXPECT_FALSE(
        takes_small_tiling(rows(512, 2), rows(1024, 3), 104000, true, kH200));         // 1.94 turns against 3.88 * 0.54
    EXPECT_FALSE(takes_small_tiling(rows(264, 2), rows(528, 3), 104000, true, kH200)); // 1 against 2 * 0.54
    EXPECT_TRUE(
        takes_small_tiling(rows(160, 2), rows(320, 3), 104000, true, kH200)); // 1, the longest, against 1.21 * 0.54
}

} // namespace
} // namespace hw4::gpu
