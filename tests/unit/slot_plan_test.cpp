// How the GPU engine divides a case among its slots, and how many connections it asks for.
#include "src/gpu/slot_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "src/gpu/device/connections.h"

namespace hw4::gpu {
namespace {

TEST(SlotPlanTest, SharesASmallCaseAmongTheStreams) {
    EngineOptions options;
    EXPECT_EQ(plan_slots({320, 128, 32}, options), (SlotPlan{4, 80}));
    EXPECT_EQ(plan_slots({3, 128, 32}, options), (SlotPlan{3, 1}));
}

// With one stream nothing overlaps, and a launch is as large as memory allows.
TEST(SlotPlanTest, TakesACaseWholeWhereThereIsOneStream) {
    EngineOptions options;
    options.streams = 1;
    EXPECT_EQ(plan_slots({160, 128, 32}, options), (SlotPlan{1, 160}));
    Problem problem{64, 8192, 64};
    problem.element = Element::bf16;
    EXPECT_EQ(plan_slots(problem, options), (SlotPlan{1, 64}));
    problem.batches = 1000;
    EXPECT_EQ(plan_slots(problem, options).batches, (1 << 30) / (4 * 8192 * 128));
}

TEST(SlotPlanTest, FillsTheCardWhereArithmeticOutweighsBytes) {
    EXPECT_EQ(plan_slots({16, 4096, 64}, {}), (SlotPlan{2, 8}));
    EXPECT_EQ(plan_slots({16, 4096, 32}, {}), (SlotPlan{2, 12}));
    EXPECT_EQ(plan_slots({16, 4096, 128}, {}), (SlotPlan{4, 4}));
    EXPECT_EQ(plan_slots({3, 4096, 64}, {}), (SlotPlan{1, 3})) << "no more than there are";
    EXPECT_EQ(plan_slots({4, 16384, 64}, {}), (SlotPlan{2, 2}));
    EXPECT_EQ(plan_slots({4, 20000, 64}, {}), (SlotPlan{4, 1})) << "two would be a turn and a bit";
    Problem grouped(16, 512, 64);
    grouped.heads = grouped.kv_heads = 8;
    EXPECT_EQ(plan_slots(grouped, {}).batches, chunk_batches_for(grouped, 4));
    grouped.keys = 1 << 20;
    EXPECT_EQ(plan_slots(grouped, {}).batches, 1) << "all of a slot are keys";
}

TEST(SlotPlanTest, CountsTheStatisticsOfRows) {
    EXPECT_EQ(device_bytes_per_batch({1, 100, 129}, Copies::two_d, true), size_t{4 * 100 * 1024 + 12 * 100});
    EngineOptions options;
    options.copies = Copies::linear;
    options.chunk_batches = 1 << 30;
    const Problem small{1 << 30, 1, 1}; // 16 bytes per batch, or 28
    EXPECT_EQ(plan_slots(small, options).batches, (256 << 20) / 16);
    options.statistics = true;
    EXPECT_EQ(plan_slots(small, options).batches, (256 << 20) / 28);
    const Problem fitting{1, 1 << 17, 128}; // without statistics it just fits into a slot
    EngineOptions asking;
    asking.statistics = true;
    EXPECT_EQ(plan_queries(fitting, asking, 1), filling_rows(fitting));
}

// Rows count by their stored size.
TEST(SlotPlanTest, CountsRowsOfNarrowElements) {
    Problem problem{1 << 30, 100, 129};
    problem.element = Element::bf16;
    EXPECT_EQ(device_bytes_per_batch(problem, Copies::linear), size_t{4 * 100 * 258});
    EXPECT_EQ(device_bytes_per_batch(problem, Copies::two_d), size_t{4 * 100 * 384});
    EXPECT_EQ(device_bytes_per_batch(problem, Copies::linear, true), size_t{4 * 100 * 258 + 12 * 100});
    EngineOptions options;
    options.copies = Copies::linear;
    options.chunk_batches = 1 << 30;
    EXPECT_EQ(plan_slots(problem, options).batches, (256 << 20) / (4 * 100 * 258));
    EngineOptions padded = options;
    padded.copies = Copies::two_d;
    EXPECT_EQ(plan_slots(problem, padded).batches, (256 << 20) / (4 * 100 * 384));
    Problem fitting{1, 1 << 19, 64}; // just the size of a slot
    fitting.element = Element::fp16;
    EXPECT_EQ(plan_queries(fitting, options, 1), fitting.queries);
}

TEST(SlotPlanTest, SplitsABatchLargerThanASlot) {
    const Problem huge{1, 300000, 64};
    EXPECT_GT(device_bytes_per_batch(huge, Copies::two_d), kSlotDeviceBytes);
    EXPECT_EQ(plan_queries(huge, {}, 1), filling_rows(huge));
    EXPECT_EQ(filling_rows(huge) % kQueryStep, 0);
    const Problem fitting{1, 1 << 17, 128}; // just the size of a slot
    EXPECT_EQ(device_bytes_per_batch(fitting, Copies::two_d), kSlotDeviceBytes);
    EXPECT_EQ(plan_queries(fitting, {}, 1), fitting.queries);
    for (const Problem& problem : {Problem{2, 32768, 64}, Problem{4, 16384, 64}, Problem{13600, 128, 32}})
        EXPECT_EQ(plan_queries(problem, {}, plan_slots(problem, {}).batches), problem.queries);
}

TEST(SlotPlanTest, ObeysAnExplicitSliceOfASingleBatch) {
    EngineOptions options;
    options.queries_at_once = 1;
    EXPECT_EQ(plan_queries({9, 5000, 20}, options, 1), kQueryStep);
    EXPECT_EQ(plan_queries({9, 500, 20}, options, 1), 500);
    EXPECT_EQ(plan_queries({9, 5000, 20}, options, 2), 5000) << "only single batches are split";
}

// Where the output has rows of keys, keys have blocks too, possibly more than queries.
TEST(SlotPlanTest, CountsTheBlocksOfTheLargestGrid) {
    Problem problem{1 << 20, 5, 8};
    problem.keys = 1001;
    problem.heads = 6;
    problem.kv_heads = 2;
    EXPECT_EQ(blocks_of_batch(problem), 6 * 2);
    problem.operation = &kBackward;
    EXPECT_EQ(blocks_of_batch(problem), 2 * 251);
    problem.queries = 10000;
    EXPECT_EQ(blocks_of_batch(problem), 6 * 2500);
    EngineOptions options;
    options.copies = Copies::linear;
    options.chunk_batches = int64_t{1} << 40;
    for (const Operation* operation : kOperations) {
        Problem many{int64_t{1} << 40, 1, 1};
        many.operation = operation;
        many.heads = many.kv_heads = 1 << 20;
        const SlotPlan plan = plan_slots(many, options);
        EXPECT_LE(plan.batches * blocks_of_batch(many), kMaxGridBlocks);
    }
}

// A slice's rows are contiguous in the output only where there is one head.
TEST(SlotPlanTest, SplitsNoBatchOfSeveralHeads) {
    Problem problem{1, 300000, 64};
    EXPECT_LT(plan_queries(problem, {}, 1), problem.queries);
    problem.heads = problem.kv_heads = 2;
    EXPECT_EQ(plan_queries(problem, {}, 1), problem.queries);
    problem.heads = problem.kv_heads = 1;
    for (const Operation* operation : {&kBackward, &kQueryGradients}) {
        problem.operation = operation;
        EXPECT_EQ(plan_queries(problem, {}, 1), problem.queries);
    }
}

TEST(SlotPlanTest, ShrinksStepByStepToTheSmallest) {
    SlotPlan plan = {4, 341};
    int steps = 0;
    while (!(plan == kSmallestPlan)) {
        const SlotPlan next = smaller(plan);
        EXPECT_LT(next.batches * next.slots, plan.batches * plan.slots);
        plan = next;
        ASSERT_LT(++steps, 100);
    }
    EXPECT_EQ(smaller(kSmallestPlan), kSmallestPlan);
}

TEST(SlotPlanTest, GivesStreamsTheScratchMemoryThatMakesThemFaster) {
    constexpr size_t kMiB = size_t{1} << 20;
    EXPECT_EQ(scratch_for(3 * kMiB, 0, 1024 * kMiB, 4), 3 * kMiB) << "more would make no difference";
    EXPECT_EQ(scratch_for(3 * kMiB, 50 * kMiB, 1024 * kMiB, 4), 50 * kMiB);
    EXPECT_EQ(scratch_for(3 * kMiB, 50 * kMiB, 100 * kMiB, 4), 25 * kMiB);
    EXPECT_EQ(scratch_for(3 * kMiB, 50 * kMiB, 100 * kMiB, 1), 50 * kMiB);
    EXPECT_EQ(scratch_for(3 * kMiB, 50 * kMiB, 0, 4), 3 * kMiB) << "what is needed is no question of the budget";
}

using connections::kCompute;
using connections::kCopy;

void set(const char* name, const char* value) {
    if (value != nullptr)
        ::setenv(name, value, 1);
    else
        ::unsetenv(name);
}

void expect_asked(const char* compute_before, const char* copy_before, const char* compute, const char* copy) {
    set(kCompute, compute_before);
    set(kCopy, copy_before);
    ask_for_few_connections();
    EXPECT_STREQ(std::getenv(kCompute), compute);
    EXPECT_STREQ(std::getenv(kCopy), copy);
}

TEST(Connections, AreFewUnlessTheUserAsksForMore) {
    expect_asked(nullptr, nullptr, "2", "1");
    expect_asked("8", nullptr, "8", nullptr);
    expect_asked(nullptr, "3", "2", "3");
    set(kCompute, nullptr);
    set(kCopy, nullptr);
}

} // namespace
} // namespace hw4::gpu
