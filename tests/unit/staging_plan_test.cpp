#include "src/run/staging_plan.h"

#include <gtest/gtest.h>

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

} // namespace
} // namespace hw4
