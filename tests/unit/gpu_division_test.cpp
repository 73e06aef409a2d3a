// How the work of a GPU is divided: a case among slots, gradients into rounds, tiles among blocks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "src/gpu/device/connections.h"
#include "src/gpu/f32/backward/rounds.h"
#include "src/gpu/f32/forward/tile_queue.h"
#include "src/gpu/slot_plan.h"

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

// Large blocks where they divide evenly, small ones where a few large ones would leave multiprocessors idle or alone
// with one.
TEST(SmallTiling, IsTakenForFewRowsOrLittleMemory) {
    constexpr size_t kBytes = 104000;
    for (const bool drawn : {false, true}) {
        EXPECT_FALSE(takes_small_tiling({512, 2}, {1024, 3}, kBytes, drawn, kH200)); // t28: 4 waves against 8 * 0.54
        EXPECT_TRUE(takes_small_tiling({160, 2}, {320, 3}, kBytes, drawn, kH200));   // t10: 2 waves against 3 * 0.54
        EXPECT_TRUE(takes_small_tiling({132, 2}, {264, 3}, kBytes, drawn, kH200));   // 1 alone against 2 * 0.54
        EXPECT_FALSE(takes_small_tiling({132, 1}, {264, 1}, kBytes, drawn, kH200));  // 1 against 2 * 0.54
        EXPECT_TRUE(takes_small_tiling({60, 2}, {120, 3}, kBytes, drawn, kH200));    // 1 alone against 1 alone * 0.54
        EXPECT_TRUE(takes_small_tiling({512, 2}, {1024, 3}, kBytes, drawn, kRtx3090));
    }
    EXPECT_TRUE(takes_small_tiling({400, 2}, {660, 3}, kBytes, false, kH200)); // 4 waves against 5 * 0.54
    EXPECT_FALSE(takes_small_tiling({400, 2}, {792, 3}, kBytes, true, kH200)); // 3.03 against 6 * 0.54
}

// How kept_pairs divides its work: rounds by memory, pieces of rows of tiles by blocks.

Problem problem_of(int64_t batches, int64_t queries, int64_t keys, int64_t dim) {
    return Problem(batches, queries, dim).of_keys(keys).of_operation(kBackward);
}

size_t bytes_of(const Problem& problem, const Rounds& rounds) { return round_bytes(RoundSizes(problem), rounds); }

TEST(Rounds, OfAUnitThatIsTooLargeAreSlabsOfWholeGroups) {
    const Problem problem = problem_of(2, 10000, 5000, 64);
    const Rounds least = rounds_for(problem, kH200, least_round_bytes(problem));
    EXPECT_EQ(least.units_at_once, 1);
    EXPECT_EQ(least.slab_rows, 1024);
    EXPECT_EQ(least.slabs, 10);
    EXPECT_TRUE(least.apart);
    const Rounds more = rounds_for(problem, kH200, 4 * least_round_bytes(problem));
    EXPECT_EQ(more.slab_rows % kGroupRows, 0);
    EXPECT_GT(more.slab_rows, 1024);
}

TEST(Rounds, FitTheMemoryTheyAreFor) {
    for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                                {1, 5000},
                                                                                {5000, 1},
                                                                                {64, 65},
                                                                                {1023, 1024},
                                                                                {1024, 1023},
                                                                                {1025, 1025},
                                                                                {4096, 300},
                                                                                {3000, 9999}})
        for (const int64_t dim : {1, 32, 33, 64, 100, 128}) {
            const Problem problem = problem_of(7, queries, keys, dim);
            const size_t least = least_round_bytes(problem);
            const size_t most = most_round_bytes(problem);
            for (size_t bytes = least; bytes <= most + least; bytes += least / 3) {
                const Rounds rounds = rounds_for(problem, kH200, bytes);
                EXPECT_LE(bytes_of(problem, rounds), bytes) << queries << " " << keys << " " << dim;
                EXPECT_GE(rounds.slab_rows * rounds.slabs, queries);
                EXPECT_LT(rounds.slab_rows * (rounds.slabs - 1), queries);
                EXPECT_TRUE(rounds.slabs == 1 || rounds.units_at_once == 1);
            }
        }
}

// The gradients of a block of keys; with the mask, for the rows that see the block.
Problem key_gradients(const Problem& problem, int64_t first_key, int64_t keys) {
    Problem part = problem.of_operation(kKeyGradients);
    part.first_key = first_key;
    part.block_keys = keys;
    return AskedGradients(part).of_rows(part);
}

TEST(Rounds, OfPartsHaveRoomForTheirPairsAndSums) {
    Problem whole = problem_of(1, 4096, 4096, 64);
    const size_t pairs = size_t{2} * 4096 * 1024 * sizeof(float);
    const size_t sums = size_t{4} * 1024 * 64 * sizeof(float); // four groups of rows or keys
    EXPECT_EQ(most_round_bytes(key_gradients(whole, 1024, 1024)), pairs + 2 * sums);
    Problem rows = whole.of_operation(kQueryGradients);
    rows.queries = 1024;
    EXPECT_EQ(most_round_bytes(rows), pairs + sums);
    whole.mask = Mask::causal;
    EXPECT_EQ(most_round_bytes(key_gradients(whole, 3072, 1024)), pairs / 4); // one group sees these keys
}

void expect_all_tiles(const PairQueue& queue, uint32_t rows, uint32_t tiles) {
    std::vector<uint32_t> done(rows, 0);
    for (uint32_t drawn = 0; drawn < queue.length(); ++drawn) {
        const PairPiece piece = queue.piece(drawn);
        ASSERT_LT(piece.row, rows);
        EXPECT_EQ(piece.first_tile, done[piece.row]); // in order
        EXPECT_LT(piece.first_tile, tiles);
        done[piece.row] = piece.end_tile;
    }
    for (const uint32_t end : done) EXPECT_GE(end, tiles);
}

TEST(PairQueue, HasEveryTileOnceWhateverTheNumbers) {
    for (const int64_t rows : {1, 2, 8, 263, 512, 4096})
        for (const int64_t tiles : {1, 2, 3, 16, 17, 256, 1000})
            for (const double share : {1.0, 0.5})
                expect_all_tiles(pair_queue(rows, tiles, share, 264), static_cast<uint32_t>(rows),
                                 static_cast<uint32_t>(tiles));
}

} // namespace
} // namespace hw4::gpu
