// How kept_pairs divides its work: rounds by memory, pieces of rows of tiles by blocks.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "src/gpu/f32/backward/rounds.h"

namespace hw4::gpu {
namespace {

constexpr Device kH200{90, 227 << 10, 132};

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
