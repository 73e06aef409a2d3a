// Every GPU kernel of the contracts fixed and fixed16 against its sequential reference, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"
#include "src/gpu/fixed/forward/card_plan.h"
#include "src/gpu/fixed/kernels.h"
#include "tests/support/each_kernel.h"
#include "tests/support/need_gpu.h"
#include "tests/support/pitched_matrix.h"

namespace hw4::gpu {
namespace {

class EachFixedGpuKernel : public KernelTest {
protected:
    bool has_two_digits() const { return GetParam().under == &kFixed16; }
    size_t tile_keys() const { return has_two_digits() ? fixed16::kTileKeys : fixed::kTileKeys; }
};

// One tile, two, many; full and ragged; more tiles than stages.
TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesForEveryNumberOfTiles) {
    for (const int64_t dim : {32, 64, 128})
        for (const int64_t tokens : {1, 63, 64, 65, 127, 128, 129, 192, 256, 257, 300, 320, 513, 897, 1024})
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::brink})
                expect_reference_bytes({1, tokens, dim}, kind, 5);
}

// Many rows select other blocks than few rows do, and blocks continue rows that other blocks have begun: some after
// full jobs (1320 jobs for 396 blocks of an H200), some at once. d = 50 is tested as well as 64, where full rows may
// have their own kernel.
TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesWhenTheCardIsFull) {
    const int64_t multiprocessors = current_device().multiprocessors;
    for (const int64_t dim : {20, 64, 128})
        expect_reference_bytes({3 * multiprocessors, 64, dim}, CaseKind::uniform, 6);
    for (const int64_t dim : {50, 64}) {
        expect_reference_bytes({3 * multiprocessors / 2, 130, dim}, CaseKind::spread, 6);
        expect_reference_bytes({5 * multiprocessors / 2, 200, dim}, CaseKind::uniform, 6);
    }
    expect_reference_bytes(Problem(4 * multiprocessors, 64, 64).of_keys(300), CaseKind::uniform, 6);
    expect_reference_bytes({3 * multiprocessors / 2, 200, 30}, CaseKind::uniform, 7);
    expect_reference_bytes({3 * multiprocessors / 4, 200, 100}, CaseKind::brink, 7);
}

// Sequences long enough for the groups of a multiprocessor to share a block (takes_joint, and its test): jobs for two
// rounds and some more; the last job of a batch has a group without rows.
Problem joint_shape(int64_t batches, int64_t tokens, int64_t dim, int groups) {
    EXPECT_TRUE(fixed_point::takes_joint(batches, tokens, tokens, groups, current_device().multiprocessors));
    return {batches, tokens, dim};
}
Problem joint64() { return joint_shape(current_device().multiprocessors / 2 + 1, 700, 33, 3); }
Problem joint32() { return joint_shape(current_device().multiprocessors * 2 / 3 + 1, 700, 16, 4); }

TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesForManyLongSequences) {
    expect_reference_bytes(joint64(), CaseKind::uniform, 8);
    expect_reference_bytes(joint32(), CaseKind::spread, 8);
    const int64_t multiprocessors = current_device().multiprocessors;
    // Rows of all columns: the last job of two groups, and of one group.
    for (const int64_t dim : {32, 64})
        expect_reference_bytes(joint_shape(multiprocessors / 3 + 1, 700, dim, 3), CaseKind::uniform, 8);
    expect_reference_bytes(joint_shape(multiprocessors / 3 + 1, 1024, 64, 3), CaseKind::uniform, 8);
    expect_reference_bytes({multiprocessors, 1030, 64}, CaseKind::spread, 9);
}

Problem under_the_mask(Problem problem, int64_t more_keys = 0) {
    problem.keys += more_keys;
    problem.mask = Mask::causal;
    return problem;
}

fixed_point::CardLaunch card_launch(const Problem& problem) {
    return {problem.units(),
            problem.batches * problem.kv_heads,
            problem.queries,
            (problem.keys + 127) / 128,
            3,
            current_device().multiprocessors};
}

// More jobs per block than it tracks at a time (kSlots of wgmma_whole.cuh): the heads are prepared alongside, where the
// kernel does that, and all in advance, because all jobs look at one head.
TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesForManyJobsOfEachBlock) {
    constexpr int64_t kMostKnown = 24;
    const int64_t heads = (kMostKnown + 5) * current_device().multiprocessors;
    for (const int64_t dim : {32, 64}) {
        const Problem many{heads, 192, dim};
        const auto beside = fixed_point::CardPlan::beside(card_launch(many));
        ASSERT_TRUE(beside);
        EXPECT_GT(beside->shares.share(beside->shares.late()).parts, kMostKnown);
        expect_reference_bytes(many, CaseKind::uniform, 9);
        expect_reference_bytes(under_the_mask(many), CaseKind::uniform, 9);
        expect_reference_bytes(under_the_mask({heads, 128, dim}), CaseKind::spread, 9); // of one tile each
        Problem of_one_head{1, 200, dim};
        of_one_head.heads = heads;
        EXPECT_FALSE(fixed_point::CardPlan::beside(card_launch(of_one_head)));
        const auto before = fixed_point::CardPlan::before(card_launch(of_one_head));
        ASSERT_TRUE(before);
        EXPECT_GT(before->shares.share(0).parts, kMostKnown);
        expect_reference_bytes(of_one_head, CaseKind::spread, 9);
    }
}

// Here the group without rows is the first of a batch; with fewer keys than queries, rows without keys follow it.
TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesForManyLongSequencesUnderTheMask) {
    expect_reference_bytes(under_the_mask(joint64()), CaseKind::uniform, 8);
    expect_reference_bytes(under_the_mask(joint64(), -100), CaseKind::spread, 8);
    expect_reference_bytes(under_the_mask(joint32(), 33), CaseKind::uniform, 8);
    expect_reference_bytes(under_the_mask(joint32()), CaseKind::spread, 8);
    for (const int64_t more_keys : {0, 33, 64}) // rows of all columns
        expect_reference_bytes(
            under_the_mask(joint_shape(current_device().multiprocessors / 3 + 1, 700, 64, 3), more_keys),
            CaseKind::spread, 9);
}

// In some batches all tiles count equally; in others the tiles of K or V do not, or some scores are too fine, or some
// are far from the others. Kernels have code for each kind.
AttentionCase all_kinds_of_batches(const Problem& problem, const Contract& contract, size_t tile_keys) {
    EXPECT_GT(static_cast<size_t>(problem.keys), 4 * tile_keys); // four full tiles and part of another
    const auto row = static_cast<size_t>(problem.dim);
    const size_t tile = row * tile_keys;
    const auto numbers = static_cast<size_t>(problem.batch_output_floats());
    const size_t whole = numbers / tile * tile;
    const auto scale = [](float* first, size_t count, float factor) {
        for (size_t i = 0; i < count; ++i) first[i] *= factor;
    };
    const auto fill = [&](float* q, int64_t batch) {
        float* const k = q + numbers;
        float* const v = k + numbers;
        fill_case_values({problem.of_batches(1), CaseKind::uniform, static_cast<uint64_t>(batch)}, 0, 3 * numbers, q);
        switch (batch % 10) {
        case 0: break;
        case 1: scale(k + 3 * tile, tile, 0.5f); break;
        case 2: scale(v + 2 * tile, tile, 3000.0f); break;
        case 3: scale(q, numbers, 0x1p-7f); break;
        case 4: scale(q + 100 * row, row, 0x1p-9f); break;
        case 5: // the last tile, which is partial
            scale(k + whole, numbers - whole, 0.01f);
            scale(v + whole, numbers - whole, 0.01f);
            break;
        case 6: // all scores of three tiles far below 0, all others far above: there the rows' references rise
            for (size_t i = 0; i < numbers; ++i) {
                q[i] = std::fabs(q[i]);
                k[i] = i < 3 * tile ? -std::fabs(k[i]) : std::fabs(k[i]);
            }
            break;
        case 7: // rows of zeros, rows of denormals, and rows that only have their largest number
            scale(q + 5 * row, row, 0.0f);
            scale(q + 6 * row, row, 0x1p-140f);
            std::fill_n(q + 7 * row, 2 * row, -3.0f);
            break;
        case 8: scale(q, numbers, 0x1p-135f); break;
        default: scale(q, numbers, 1e4f); // scores without fractions
        }
    };
    return AttentionCase::filled(problem, "all kinds of batches", fill, contract);
}

TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesWhetherTilesCountAlikeOrNot) {
    const int64_t multiprocessors = current_device().multiprocessors;
    static std::map<const Contract*, std::vector<AttentionCase>> tests; // shared by all kernels of a contract
    std::vector<AttentionCase>& of_contract = tests[&contract()];
    if (of_contract.empty())
        for (const Problem& problem :
             {joint_shape(multiprocessors / 2 + 1, 700, 32, 4), joint_shape(multiprocessors / 2 + 1, 520, 64, 3),
              joint_shape(5 * multiprocessors / 2, 520, 64, 3), // prepared alongside, heads of every kind
              under_the_mask(joint_shape(multiprocessors / 2 + 1, 520, 64, 3)),
              Problem{multiprocessors / 2 + 1, static_cast<int64_t>(5 * tile_keys() + 10), 128}})
            of_contract.push_back(all_kinds_of_batches(problem, contract(), tile_keys()));
    for (const AttentionCase& test : of_contract) expect_reference_bytes(test);
}

// Computes one part of each batch's queries after another, as hw4 does when a sequence is larger than a slot.
TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesForSomeQueries) {
    const int64_t multiprocessors = current_device().multiprocessors;
    const Problem many = Problem(multiprocessors / 2, 2 * kQueryStep + 100, 64).of_keys(520);
    const Problem masked = under_the_mask({multiprocessors / 4, kQueryStep + 100, 64});
    for (const Problem& problem : {Problem{multiprocessors / 4, 2048, 8}, many, masked, Problem{8, 1216, 128}})
        expect_reference_bytes(reference_case(problem, CaseKind::uniform, 9, contract()), in_query_steps(GetParam()));
}

// The kernel for whole rows takes these; other tests would pass without it.
TEST(WholeRows, HaveAKernelUnderTheMask) {
    HW4_SKIP_WITHOUT_GPU();
    const Device& device = current_device();
    if (std::min(device.arch, device.code_arch) < 90 || !device.powers_follow_table)
        GTEST_SKIP() << "wgmma_pairs does not run here";
    const AttentionCase test(under_the_mask({device.multiprocessors, 330, 64}), CaseKind::uniform, 5, kFixed16);
    const Scratch scratch = make_scratch(plan_wgmma_pairs(test.problem, device).scratch_bytes);
    const Stream stream = make_stream();
    const auto rows = static_cast<size_t>(test.problem.input_rows());
    PitchedMatrix in(rows, 64);
    PitchedMatrix out(static_cast<size_t>(test.problem.output_rows()), 64);
    in.copy_in(test.qkv.data(), rows, stream.get());
    EXPECT_TRUE(launch_pairs_whole(
        launch_of(test.problem, device, in.data(), in.stride(), out.data(), out.stride(), scratch.get()),
        stream.get()));
    std::vector<float> got(test.expected.size());
    out.copy_out(got.data(), got.size() / 64, stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));
    EXPECT_TRUE(same_bytes(test.expected, got));
}

TEST_P(EachFixedGpuKernel, TakesTheLargestNumbers) {
    for (const AttentionCase& test : cases_of_the_largest_numbers(contract())) expect_reference_bytes(test);
}

// All digits at their limits, 127 and -128, in as many columns as possible.
TEST_P(EachFixedGpuKernel, TakesTheLargestDigits) {
    for (const int64_t dim : {64, 128, 256}) {
        const Problem problem{1, 200, dim};
        const float factor = fixed::query_factor(scale_for(dim).c);
        const auto fill = [&](float* qkv, int64_t) {
            const auto numbers = static_cast<size_t>(problem.batch_output_floats());
            for (size_t i = 0; i < 3 * numbers; ++i) {
                const size_t kind = i * i / 7 % 5;
                const float n = has_two_digits() ? (kind < 3 ? 0x7f7fp-13f : 0x7e80p-13f)
                                                 : (kind < 3 ? 0x7f7f7fp-21f : 0x7e7f80p-21f);
                qkv[i] = (kind % 2 == 0 ? n : -n) / (i < numbers ? factor : fixed::kWiden);
            }
        };
        expect_reference_bytes(AttentionCase::filled(problem, "largest digits", fill, contract()));
    }
}

// A row's scores lie close together, then so far apart that the smallest weights are not floats, up to scores without
// fractions: kernels have code for each. (At d = 1 a factor of 5.6 is just near, and 1200 just far.)
TEST_P(EachFixedGpuKernel, GivesTheReferenceBytesHoweverFarScoresLieApart) {
    for (const int64_t dim : {1, 32, 60, 64, 128, 200})
        for (const float factor : {1e-4f, 1.0f, 2.0f, 3.0f, 5.6f, 6.5f, 8.0f, 100.0f, 400.0f, 1200.0f, 1e4f, 1e8f}) {
            const Problem problem{1, 200, dim};
            const auto fill = [&](float* qkv, int64_t) {
                const auto numbers = static_cast<size_t>(problem.batch_output_floats());
                fill_case_values({problem, CaseKind::uniform, 5}, 0, 3 * numbers, qkv);
                for (size_t i = 0; i < numbers; ++i) qkv[i] *= factor;
            };
            const std::string name = "queries times " + std::to_string(factor);
            expect_reference_bytes(AttentionCase::filled(problem, name, fill, contract()));
        }
}

// Rows of Q, and tiles of K and V, that are denormal, tiny, ordinary, zero and large, mixed and separate; the numbers
// within a row are mixed in the same way.
TEST_P(EachFixedGpuKernel, TakesAnyMagnitudes) {
    for (const int64_t dim : {1, 2, 3, 32, 64, 100, 128, 256})
        for (const bool mixed : {true, false}) {
            const Problem problem{1, 300, dim};
            const auto fill = [&](float* qkv, int64_t) {
                const auto numbers = static_cast<size_t>(problem.batch_output_floats());
                fill_case_values({problem, CaseKind::uniform, 7}, 0, 3 * numbers, qkv);
                for (size_t i = 0; i < numbers; ++i) {
                    const int row = static_cast<int>(i / static_cast<size_t>(dim));
                    const int exponent = mixed ? (row % 5 == 4 ? 0 : row - 160) : -96 - row / 64;
                    qkv[i] = std::ldexp(qkv[i], std::min(exponent - static_cast<int>(i % 3) * 20, 100));
                    if (mixed && row % 7 == 3) qkv[i] = 0;
                    constexpr int kOfTile[] = {-20, -140, -1000, -110, -20};
                    qkv[numbers + i] = std::ldexp(qkv[numbers + i], kOfTile[row / 64]);
                    qkv[2 * numbers + i] = std::ldexp(qkv[2 * numbers + i], mixed ? kOfTile[(row / 64 + 1) % 5] : 0);
                }
            };
            const std::string name = mixed ? "magnitudes beside each other" : "one magnitude for each group";
            expect_reference_bytes(AttentionCase::filled(problem, name, fill, contract()));
        }
}

// One launch after another in the same memory, each with other numbers, without clearing it.
TEST_P(EachFixedGpuKernel, TakesTheMemoryOfTheLaunchBefore) {
    for (const int64_t dim : {32, 64, 128}) {
        std::vector<AttentionCase> tests;
        tests.emplace_back(Problem{40, 200, dim}, CaseKind::uniform, 1, contract());
        tests.emplace_back(Problem{90, 130, dim}, CaseKind::spread, 2, contract());
        tests.emplace_back(Problem{3, 700, dim}, CaseKind::uniform, 3, contract());
        const Problem masked = under_the_mask({current_device().multiprocessors + 8, 130, dim});
        if (plan_of(GetParam(), masked, current_device()).why_not.empty())
            tests.emplace_back(masked, CaseKind::uniform, 4, contract());
        const std::string refusal = plan_of(GetParam(), tests[0].problem, current_device()).why_not;
        if (!refusal.empty()) GTEST_SKIP() << refusal;
        size_t scratch_bytes = 0;
        for (const AttentionCase& test : tests)
            scratch_bytes = std::max(scratch_bytes, plan_of(GetParam(), test.problem, current_device()).scratch_bytes);
        const Scratch scratch = make_scratch(scratch_bytes);
        const Stream stream = make_stream();
        std::vector<PitchedMatrix> in;
        std::vector<PitchedMatrix> out;
        for (const AttentionCase& test : tests) {
            const auto rows = static_cast<size_t>(test.problem.input_rows());
            in.emplace_back(rows, static_cast<size_t>(dim));
            out.emplace_back(static_cast<size_t>(test.problem.output_rows()), static_cast<size_t>(dim));
            in.back().copy_in(test.qkv.data(), rows, stream.get());
        }
        for (size_t i = 0; i < tests.size(); ++i)
            GetParam().launch(launch_of(tests[i].problem, current_device(), in[i].data(), in[i].stride(), out[i].data(),
                                        out[i].stride(), scratch.get()),
                              stream.get());
        for (size_t i = 0; i < tests.size(); ++i) {
            std::vector<float> got(tests[i].expected.size());
            out[i].copy_out(got.data(), got.size() / static_cast<size_t>(dim), stream.get());
            HW4_CUDA(cudaStreamSynchronize(stream.get()));
            EXPECT_TRUE(same_bytes(tests[i].expected, got)) << tests[i].name;
        }
    }
}

// For compute-sanitizer (make gpu-check): every template size, full and ragged tiles, more tiles than stages, scores
// near each other and far apart.
TEST_P(EachFixedGpuKernel, SanitizerShapes) {
    for (const int64_t dim : {32, 64, 128, 200}) {
        expect_reference_bytes({1, 65, dim}, CaseKind::uniform, 3);
        expect_reference_bytes({1, 70, dim - 3}, CaseKind::huge, 3);
        expect_reference_bytes({1, 130, dim}, CaseKind::spread, 3);
        expect_reference_bytes({1, 700, dim}, CaseKind::uniform, 3);
    }
    expect_reference_bytes({2, 330, 64}, CaseKind::uniform, 3);
}

// The blocks of a full GPU, some of which continue rows that others have begun. Separate tests of the least size, to
// save the sanitizers' time.
TEST_P(EachFixedGpuKernel, SanitizerFullCard64) {
    expect_reference_bytes({5 * current_device().multiprocessors / 4, 130, 50}, CaseKind::uniform, 3);
}
TEST_P(EachFixedGpuKernel, SanitizerFullCard32) {
    expect_reference_bytes({3 * current_device().multiprocessors / 2, 130, 30}, CaseKind::uniform, 3);
}
TEST_P(EachFixedGpuKernel, SanitizerFullCard128) {
    expect_reference_bytes({3 * current_device().multiprocessors / 4, 130, 100}, CaseKind::uniform, 3);
}

// Rows of all columns, two jobs per head.
TEST_P(EachFixedGpuKernel, SanitizerWhole64) {
    const Problem problem{2 * current_device().multiprocessors / 3 + 1, 200, 64};
    EXPECT_TRUE(fixed_point::CardPlan::before(card_launch(problem)));
    expect_reference_bytes(problem, CaseKind::uniform, 3);
    expect_reference_bytes(under_the_mask(problem), CaseKind::uniform, 3);
}

// Groups of a block that share its tiles.
TEST_P(EachFixedGpuKernel, SanitizerJoint64) { expect_reference_bytes(joint64(), CaseKind::uniform, 3); }
TEST_P(EachFixedGpuKernel, SanitizerJoint32) { expect_reference_bytes(joint32(), CaseKind::uniform, 3); }

INSTANTIATE_TEST_SUITE_P(Fixed, EachFixedGpuKernel, testing::ValuesIn(kernels_of(kFixed)), kernel_of_instance);
INSTANTIATE_TEST_SUITE_P(Fixed16, EachFixedGpuKernel, testing::ValuesIn(kernels_of(kFixed16)), kernel_of_instance);

// The tests above cover the code for the GPU's own instruction only where the kernels use it. Hopper's instruction
// follows the table: if the kernels did not see that, all tests would pass with table_pairs instead of wgmma_pairs.
TEST(CardPowers, FollowTheTable) {
    HW4_SKIP_WITHOUT_GPU();
    const bool follows = card_follows_table();
    EXPECT_TRUE(follows || current_device().arch != 90);
    if (!follows) GTEST_SKIP() << "this GPU's instruction for powers of 2 gives others";
}

} // namespace
} // namespace hw4::gpu
