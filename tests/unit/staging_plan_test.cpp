// The sizes of staging buffers, and of the engines' chunks.
#include "src/run/staging_plan.h"

#include <gtest/gtest.h>

#include "src/run/engine.h"

namespace hw4 {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(StagingPlan, KeepsALargeFileInFewBuffers) {
    for (const Problem& problem :
         {Problem{500, 2048, 64}, Problem{9600, 128, 64}, Problem{1, 1 << 20, 64}, Problem{1 << 24, 1, 1}}) {
        const StagingPlan plan = plan_staging(problem, true, true, {});
        EXPECT_EQ(plan.readers, 8);
        EXPECT_EQ(plan.writers, 4);
        EXPECT_EQ(plan.ring_buffers, 16);
        EXPECT_EQ(plan.piece_bytes, 2 * kMiB);
        EXPECT_EQ(plan.part_bytes, 2 * kMiB);
        EXPECT_EQ(plan.bytes(), 40 * kMiB);
    }
}

// With 12 bytes beside each row of one float, a part has a quarter of the rows.
TEST(StagingPlan, HasRoomForWhatComesWithOutputRows) {
    const Problem problem{1 << 24, 1, 1};
    const StagingPlan plan = plan_staging(problem, true, true, {}, 12);
    EXPECT_EQ(plan.part_bytes, 2 * kMiB);
    EXPECT_EQ(plan.part_rows, static_cast<int64_t>(2 * kMiB / 16));
    EXPECT_EQ(plan.piece_rows, plan_staging(problem, true, true, {}).piece_rows);
    EXPECT_GE(plan_staging({1, 2, 3000}, true, true, {}, 12).part_bytes, size_t{2 * 12012});
}

TEST(StagingPlan, OneThreadForAPipe) {
    const Problem problem{500, 2048, 64};
    EXPECT_EQ(plan_staging(problem, false, true, {}).readers, 1);
    EXPECT_EQ(plan_staging(problem, false, true, {}).writers, 4);
    EXPECT_EQ(plan_staging(problem, true, false, {}).readers, 8);
    EXPECT_EQ(plan_staging(problem, true, false, {}).writers, 1);
}

TEST(StagingPlan, ABufferHoldsAtLeastARow) {
    const StagingPlan plan = plan_staging({3, 5, 10000000}, true, true, {}); // rows of 38 MiB
    EXPECT_EQ(plan.piece_rows, 1);
    EXPECT_EQ(plan.part_rows, 1);
    EXPECT_EQ(plan.ring_buffers, 2);
    EXPECT_EQ(plan.readers, 2);
    EXPECT_GE(plan.piece_bytes, size_t{40000000});
}

TEST(ChunkBatches, FillsEightMebibytes) {
    EXPECT_EQ(chunk_batches_for({13600, 128, 32}, 1), 170); // batches of 48 KiB
    EXPECT_EQ(chunk_batches_for({500, 2048, 64}, 1), 5);    // batches of 1.5 MiB
    EXPECT_EQ(chunk_batches_for({1 << 24, 1, 1}, 1), (8 << 20) / 12);
    EXPECT_EQ(chunk_batches_for({7, 128, 32}, 1), 7);
    EXPECT_EQ(chunk_batches_for({1, 1, 1}, 1), 1);
}

TEST(ChunkBatches, LeavesSomeForEveryPart) {
    EXPECT_EQ(chunk_batches_for({7, 128, 32}, 4), 2); // 2 + 2 + 2 + 1
    EXPECT_EQ(chunk_batches_for({3, 128, 32}, 4), 1);
    EXPECT_EQ(chunk_batches_for({13600, 128, 32}, 4), 170);
    EXPECT_EQ(chunk_batches_for({2, 32768, 64}, 1), 1);                          // batches of 24 MiB
    EXPECT_EQ(chunk_batches_for({100, 16384, 42}, 1), 1);                        // 7.88 MiB
    EXPECT_EQ(chunk_batches_for({100, 8192, 42}, 1), 2);                         // half of 7.88 MiB
    EXPECT_EQ(chunk_batches_for({3, int64_t{1} << 31, int64_t{1} << 27}, 1), 1); // nearly 2^63 bytes
}

} // namespace
} // namespace hw4
