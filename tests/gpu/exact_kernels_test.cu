// Every forward kernel of every contract that promises bytes, against its sequential reference, byte for byte, with and
// without row statistics. Then tests of f32 kernels alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "tests/support/each_kernel.h"
#include "tests/support/large_tiles.h"
#include "tests/support/mixed_rows.h"
#include "tests/support/problems.h"
#include "tests/support/scattered.h"
#include "tests/support/settings.h"
#include "tests/support/stray_cases.h"

namespace hw4::gpu {
namespace {

// With this many batches of one or two blocks of 128 rows, a multiprocessor has two large tiles or four small ones.
int64_t full_card_of_single_blocks(const Device& device) { return device.multiprocessors * 3 / 2 + 1; }
int64_t full_card_of_double_blocks(const Device& device) { return device.multiprocessors * 3 / 4 + 1; }

TEST(FullCard, TakesLargeTilesWhateverTheCard) {
    for (int multiprocessors = 2; multiprocessors <= 300; ++multiprocessors) {
        const Device card{90, std::numeric_limits<size_t>::max(), multiprocessors};
        for (const int64_t dim : {37, 64, 101, 128}) {
            for (const int64_t n : {65, 100, 128})
                EXPECT_TRUE(takes_large_tiles({full_card_of_single_blocks(card), n, dim}, 0, card)) << multiprocessors;
            EXPECT_TRUE(takes_large_tiles({full_card_of_double_blocks(card), 200, dim}, 0, card)) << multiprocessors;
        }
    }
}

// ---- Every forward kernel of every contract

class EachGpuKernel : public KernelTest {};

TEST_P(EachGpuKernel, GivesTheReferenceBytesOnEveryKindAndCorner) {
    for (const auto& [problem, kind] : corner_cases()) expect_reference_bytes(problem, kind, 11);
    std::map<int64_t, size_t> turns; // of each dim, which begin with different kinds
    for (const Problem& problem : corner_problems())
        for (const CaseKind kind : some_of_four(problem.dim / 32 + turns[problem.dim]++))
            expect_statistics_too(problem, kind, 11);
}

TEST_P(EachGpuKernel, GivesTheReferenceBytesOnMixedRows) {
    for (const AttentionCase& test : mixed_rows_cases(contract())) expect_statistics_too(test);
}

// Without HW4_SOAK the small sizes, and then sizes near a multiple of 16 and some even ones.
TEST_P(EachGpuKernel, GivesTheReferenceBytesForEveryHeadSize) {
    for (int64_t dim = 1; dim <= 256; ++dim) {
        if (!soaks() && dim > 66 && dim % 16 != 15 && dim % 16 > 2 && dim % 16 != 4 && dim % 16 != 8) continue;
        for (const int64_t n : {40, 70}) // in turns: each for odd dims, and for multiples of 2, 4, 8, 16 and 32
            if (soaks() || (n == 40) == (dim / 3 % 2 == 0))
                expect_reference_bytes({1, n, dim}, CaseKind::uniform, static_cast<uint64_t>(dim));
    }
}

TEST_P(EachGpuKernel, TakesManySmallBatches) { expect_reference_bytes({14000, 3, 5}, CaseKind::uniform, 4); }

// Several heads, some of which share K and V, and a different number of keys than of queries.
// More keys than queries, fewer, one; every template size of every kernel, full and partial.
std::vector<Problem> problems() {
    std::vector<Problem> list;
    for (const int64_t dim : {32, 64, 128, 37, 100, 200})
        for (const Problem& problem : {problem_of({2, 4, 2, 70, 200, dim}), problem_of({2, 4, 2, 200, 70, dim}),
                                       problem_of({2, 4, 2, 70, 1, dim}), problem_of({3, 3, 1, 1, 130, dim}),
                                       problem_of({2, 2, 2, 65, 64, dim}), problem_of({2, 1, 1, 130, 33, dim})})
            list.push_back(problem);
    return list;
}

TEST_P(EachGpuKernel, GivesTheReferenceBytesOfHeads) {
    size_t turn = 0;
    for (const Problem& problem : problems()) {
        const size_t of_dim = turn / 6; // six problems of each: the next dim begins three kinds later
        for (const CaseKind kind : some_of_four(turn++ + of_dim)) expect_statistics_too(problem, kind);
    }
}

TEST_P(EachGpuKernel, TakesEachOperandWhereItIs) {
    for (const Problem& problem : problems()) {
        if (!plan(problem).why_not.empty()) continue;
        const AttentionCase& test = reference_case(problem, CaseKind::uniform, 5, contract());
        EXPECT_TRUE(same_bytes(test.expected, attend_scattered(GetParam(), test))) << test.name;
    }
}

// Large blocks, blocks that draw or share their work, and groups that share a block's keys.
TEST_P(EachGpuKernel, GivesTheReferenceBytesOfHeadsWhenTheCardIsFull) {
    const int64_t batches = current_device().multiprocessors / 4;
    for (const int64_t dim : {32, 64, 128}) {
        expect_reference_bytes(problem_of({batches, 8, 2, 130, 70, dim}), CaseKind::uniform);
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread})
            expect_statistics_too({2 * batches + 1, 520, dim}, kind, 11);
    }
    expect_reference_bytes(problem_of({batches / 4, 8, 4, 520, 600, 64}), CaseKind::uniform);
}

TEST_P(EachGpuKernel, GivesTheReferenceBytesOfSomeQueriesOfEveryHead) {
    for (const int64_t dim : {32, 64, 128})
        for (const auto& [queries, kind] :
             {std::pair{kQueryStep + 70, CaseKind::uniform}, std::pair{2 * kQueryStep + 70, CaseKind::spread}}) {
            const Problem problem = problem_of({2, 2, 1, queries, 100, dim});
            if (!plan(problem).why_not.empty()) continue;
            expect_statistics_too(reference_case(problem, kind, 5, contract()), in_query_steps(GetParam()));
        }
}

// For compute-sanitizer (make gpu-check).
TEST_P(EachGpuKernel, SanitizerHeads) {
    for (const int64_t dim : {32, 64, 128, 37})
        for (const Problem& problem : {problem_of({1, 4, 2, 33, 70, dim}), problem_of({1, 2, 1, 70, 1, dim})})
            expect_reference_bytes(problem, CaseKind::uniform);
}

TEST_P(EachGpuKernel, SanitizerStatistics) {
    for (const auto& [n, dim] : {std::pair{70, 64}, {33, 37}, {40, 128}})
        for (const Mask mask : kEveryMask)
            expect_statistics_too(problem_of({1, 1, 1, n, n, dim}, mask), CaseKind::spread, 11);
}

INSTANTIATE_TEST_SUITE_P(Exact, EachGpuKernel, testing::ValuesIn(kernels_that_do(kForward)), kernel_of_instance);

// ---- Kernels of f32

class EachF32Kernel : public KernelTest {};

TEST_P(EachF32Kernel, TreatsNegativeZerosAsTheReferenceDoes) {
    expect_reference_bytes(AttentionCase::with_negative_zeros());
}

TEST_P(EachF32Kernel, GivesTheReferenceBytesWhenTheCardIsFull) {
    const Device card = current_device();
    for (const int64_t dim : {32, 37, 64, 101, 128}) {
        const Problem problem{full_card_of_double_blocks(card), 200, dim};
        if (dim > 32) ASSERT_TRUE(takes_large_tiles(problem, 0, card)) << "too few blocks, or too many";
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::brink, CaseKind::fading})
            expect_reference_bytes(problem, kind, 6);
    }
}

// Kernels that leave the maximum out must notice every row for which the contract moves M or clamps a score. Each block
// of rows notices for itself, so that a launch takes many batches: one wave of small tiles, of which 700 rows are 11.
TEST_P(EachF32Kernel, NoticesScoresThatMoveTheReference) {
    static const std::vector<AttentionCase> cases = [] { // the same for every kernel
        const std::ptrdiff_t batches = std::max(current_device().multiprocessors / 11, 1);
        std::vector<AttentionCase> made;
        for (const int64_t dim : {1, 64, 128})
            for (const int64_t n : {40, 200, 700}) {
                const std::vector<Stray> all = strays(n, dim);
                for (auto from = all.begin(); from != all.end();) {
                    const auto end = all.end() - from > batches ? from + batches : all.end();
                    made.push_back(stray_case({from, end}, dim));
                    from = end;
                }
            }
        return made;
    }();
    for (const AttentionCase& test : cases) expect_reference_bytes(test);
}

// For compute-sanitizer (make gpu-check), which is a thousand times slower: few small shapes, with ragged N. They
// cover every template size of every kernel except the large tiles (SanitizerLargeTiles), with full and partial rows;
// two tiles of keys up to d = 200, two segments for full rows up to d = 128 and partial rows of d = 7; and scores that
// move the reference, so that kernels without a maximum compute their rows again.
TEST_P(EachF32Kernel, SanitizerShapes) {
    for (const Problem& problem :
         {Problem{1, 1, 1}, Problem{1, 66, 32}, Problem{1, 66, 64}, Problem{1, 66, 128}, Problem{1, 66, 7},
          Problem{1, 33, 50}, Problem{1, 33, 100}, Problem{1, 33, 200}, Problem{1, 20, 256}})
        expect_reference_bytes(problem, CaseKind::uniform, 3);
    for (const int64_t dim : {32, 64, 128}) expect_reference_bytes({1, 33, dim}, CaseKind::brink, 3);
}

// All rows take one path, or each row takes another.
TEST_P(EachF32Kernel, SanitizerMixedRows) {
    for (const int64_t dim : {32, 64, 128}) expect_reference_bytes(mixed_rows({2, 66, dim}, 4));
}

// The kernels from register_tiles on.
std::vector<Kernel> tile_kernels() {
    std::vector<Kernel> found;
    for (const Kernel& kernel : kernels_of(kF32))
        if (!found.empty() || std::string(kernel.name) == "register_tiles") found.push_back(kernel);
    return found;
}

TEST(TileKernels, AreInTheTable) {
    EXPECT_FALSE(tile_kernels().empty()) << "no kernel of the table is named register_tiles";
}

class EachTileKernel : public KernelTest {
protected:
    // The case must be one that large tiles compute. Does nothing where the GPU has too little shared memory for them.
    void expect_reference_bytes_of_large_tiles(const AttentionCase& test) {
        const Device card = current_device();
        const size_t bytes = large_tile_bytes(test.problem.dim);
        if (card.shared_bytes < bytes) return;
        ASSERT_TRUE(takes_large_tiles(test.problem, bytes, card)) << test.name;
        expect_reference_bytes(test);
    }
};

TEST_P(EachTileKernel, NoticesScoresThatMoveTheReferenceWhenTheCardIsFull) {
    static const std::vector<AttentionCase> cases = [] { // the same for every kernel
        std::vector<AttentionCase> made;
        for (const int64_t dim : {64, 128})
            for (const int64_t n : {100, 128})
                made.push_back(stray_batches(full_card_of_single_blocks(current_device()), n, dim));
        return made;
    }();
    for (const AttentionCase& test : cases) expect_reference_bytes_of_large_tiles(test);
}

TEST_P(EachTileKernel, GivesTheReferenceBytesOnMixedRowsWhenTheCardIsFull) {
    static const std::vector<AttentionCase> cases = [] { // the same for every kernel
        std::vector<AttentionCase> made;
        const Device card = current_device();
        size_t turn = 0;
        for (const int64_t dim : {64, 101, 128})
            for (const int64_t n : {65, 128, 200}) {
                const int64_t batches = n > 128 ? full_card_of_double_blocks(card) : full_card_of_single_blocks(card);
                made.push_back(mixed_rows({batches, n, dim}, turn));
                turn += static_cast<size_t>(batches);
            }
        return made;
    }();
    for (const AttentionCase& test : cases) expect_reference_bytes_of_large_tiles(test);
}

TEST_P(EachTileKernel, SanitizerLargeTiles) {
    const int64_t batches = full_card_of_single_blocks(current_device());
    for (const int64_t dim : {50, 64, 101, 128})
        expect_reference_bytes_of_large_tiles(reference_case({batches, 65, dim}, CaseKind::uniform, 3));
}

// The work queue, as on a GPU with few multiprocessors, or on the present GPU with few rows: pieces that begin in the
// middle of the keys, undivided rows, fewer rows than blocks, blocks that find the queue empty.
class DrawnTiles : public testing::Test {
protected:
    void SetUp() override { HW4_SKIP_WITHOUT_GPU(); }

    // `queries`: of each unit, per launch; the launches use the same scratch memory, one after the other.
    void expect_reference_bytes(const AttentionCase& test, int multiprocessors,
                                int64_t queries = std::numeric_limits<int32_t>::max()) {
        const Kernel& kernel = *find_kernel("drawn_tiles");
        Device card = current_device();
        card.multiprocessors = multiprocessors;
        const Plan plan = plan_of(kernel, test.problem, card);
        if (!plan.why_not.empty()) GTEST_SKIP() << plan.why_not;
        ASSERT_GT(plan.scratch_bytes, 0u) << test.name;
        unsigned drawn = 0; // the final value of the queue's counter
        const auto run = [&](Launch launch, cudaStream_t stream) {
            launch.device = card;
            for (; launch.first_query < launch.problem.queries; launch.first_query = launch.end_query) {
                launch.end_query = launch.first_query + queries;
                kernel.launch(launch, stream);
            }
            HW4_CUDA(cudaMemcpyAsync(&drawn, launch.scratch, sizeof drawn, cudaMemcpyDeviceToHost, stream));
        };
        EXPECT_TRUE(same_bytes(test.expected, attend(test, plan.scratch_bytes, run)))
            << test.name << ", " << multiprocessors;
        EXPECT_GT(drawn, 0u) << test.name << ", " << multiprocessors << ": nothing was drawn";
        EXPECT_NE(drawn, 0xffffffffu) << test.name << ", " << multiprocessors << ": nothing was drawn";
    }
};

// Above 32 columns, 700 and 3 rows are cut into small blocks, the other numbers of rows into large ones.
TEST_F(DrawnTiles, GiveTheReferenceBytes) {
    for (const int64_t dim : {32, 20, 64, 50, 128, 100})
        for (const Problem& problem :
             {Problem{1, 1500, dim}, Problem{13, 200, dim}, Problem{40, 65, dim}, Problem{3, 700, dim}})
            for (const int multiprocessors : {1, 2})
                expect_reference_bytes(reference_case(problem, CaseKind::uniform, 7), multiprocessors);
    expect_reference_bytes(reference_case({3, 3000, 64}, CaseKind::fading, 7), 5);
    expect_reference_bytes(reference_case({900, 3, 64}, CaseKind::uniform, 7), 3);
}

// Fewer rows than blocks, where the queue does not pay: the kernel draws all the same when it is asked for by name, or
// has the only tiles for that d.
// From one row of one key to rows of many tiles, each in pieces that other blocks wait for.
TEST_F(DrawnTiles, GiveTheReferenceBytesOfFewRows) {
    const int multiprocessors = current_device().multiprocessors;
    for (const int64_t dim : {7, 32, 64, 128})
        for (const Problem& problem : {Problem{1, 1, dim}, Problem{2, 3, dim}, Problem{1, 64, dim},
                                       Problem{1, 129, dim}, Problem{3, 200, dim}, Problem{1, 2500, dim}}) {
            EXPECT_EQ(plan_of(*find_kernel("drawn_tiles"), problem, current_device()).pays, dim == 7)
                << problem.queries;
            expect_reference_bytes(reference_case(problem, CaseKind::uniform, 7), multiprocessors);
        }
}

// The first slice has large blocks, the second small ones: they divide the scratch memory differently.
TEST_F(DrawnTiles, GiveTheReferenceBytesInSlices) {
    for (const int64_t dim : {20, 64, 128})
        expect_reference_bytes(reference_case({2, 1700, dim}, CaseKind::uniform, 7), 1, kQueryStep);
}

// Two simultaneous launches, each of which fills the GPU: no block may wait forever, whichever blocks start late.
TEST_F(DrawnTiles, GiveTheReferenceBytesSideBySide) {
    constexpr int kLaunches = 2;
    const Device card = current_device();
    const Kernel& kernel = *find_kernel("drawn_tiles");
    const Problem part{3 * card.multiprocessors, 130, 32};
    const Plan plan = plan_of(kernel, part, card);
    if (!plan.why_not.empty()) GTEST_SKIP() << plan.why_not;
    ASSERT_TRUE(plan.pays);
    const AttentionCase& test = reference_case(part.of_batches(kLaunches * part.batches), CaseKind::uniform, 7);
    const auto run = [&](Launch launch, cudaStream_t stream) {
        Stream streams[kLaunches];
        Scratch scratch[kLaunches];
        for (int n = 0; n < kLaunches; ++n) {
            streams[n] = make_stream();
            scratch[n] = make_scratch(plan.scratch_bytes);
        }
        HW4_CUDA(cudaStreamSynchronize(stream)); // wait for the input
        launch.problem = part;
        const auto skip = [&](Tensor& tensor) {
            if (tensor.data != nullptr) tensor.data = static_cast<float*>(tensor.data) + part.batches * tensor.batch;
        };
        for (int n = 0; n < kLaunches; ++n) {
            launch.scratch = scratch[n].get();
            kernel.launch(launch, streams[n].get());
            for (Tensor& tensor : launch.in) skip(tensor);
            for (Tensor& tensor : launch.out) skip(tensor);
        }
        for (const Stream& each : streams) HW4_CUDA(cudaStreamSynchronize(each.get()));
    };
    EXPECT_TRUE(same_bytes(test.expected, attend(test, 0, run))) << test.name;
}

// With this many multiprocessors most rows are divided; 700 rows are cut into small blocks, 760 into large ones.
TEST_F(DrawnTiles, NoticeStraysInEveryPiece) {
    for (const auto& [dim, multiprocessors] : {std::pair{32, 1}, std::pair{64, 2}, std::pair{128, 4}})
        for (const int64_t n : {700, 760}) {
            for (const Stray& stray : strays(n, dim))
                if (stray.shows) expect_reference_bytes(stray_case({stray}, dim), multiprocessors);
            const Stray in_a_middle_piece = stray_high(n, n - 1, 600, 90.0f, true);
            expect_reference_bytes(stray_case({in_a_middle_piece}, dim), multiprocessors);
        }
}

TEST_F(DrawnTiles, GiveTheReferenceBytesOnMixedRows) {
    const auto courses = static_cast<int64_t>(Courses(1, 1).count());
    size_t turn = 0;
    for (const auto& [dim, multiprocessors] : {std::pair{32, 2}, std::pair{64, 5}, std::pair{128, 5}}) {
        for (const int64_t n : {200, 450}) {
            expect_reference_bytes(mixed_rows({courses / 4, n, dim}, turn), multiprocessors);
            turn += static_cast<size_t>(courses / 4);
        }
        // Large blocks under the mask: rows stray in the tile where the diagonal ends, and before it.
        const Problem masked = with_heads(causal_problem(256, 256, dim), courses / 4, 1, 1);
        expect_reference_bytes(mixed_rows(masked, turn), multiprocessors);
    }
}

TEST_F(DrawnTiles, SanitizerPieces) {
    for (const int64_t dim : {32, 64, 128})
        expect_reference_bytes(reference_case({3, 270, dim}, CaseKind::uniform, 7), 1);
    for (const int64_t dim : {64, 128}) // large blocks
        expect_reference_bytes(reference_case({2, 380, dim}, CaseKind::uniform, 7), 1);
}

INSTANTIATE_TEST_SUITE_P(Exact, EachTileKernel, testing::ValuesIn(tile_kernels()), kernel_of_instance);
INSTANTIATE_TEST_SUITE_P(Exact, EachF32Kernel, testing::ValuesIn(kernels_of(kF32)), kernel_of_instance);

} // namespace
} // namespace hw4::gpu
