// The table of kernels and how one is chosen. No GPU is needed.
#include "src/gpu/kernels.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tests/support/problems.h"

namespace hw4::gpu {
namespace {

TEST(KernelTable, NamesAreUniqueAndFound) {
    std::set<std::string> names;
    for (const Kernel& kernel : kernels()) {
        EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
        EXPECT_EQ(find_kernel(kernel.name), &kernel);
        EXPECT_NE(std::string(kernel.idea), "") << kernel.name;
        EXPECT_NE(kernel.plan, nullptr) << kernel.name;
        EXPECT_NE(kernel.run, nullptr) << kernel.name;
    }
    EXPECT_FALSE(names.empty());
    EXPECT_EQ(find_kernel("fastest"), nullptr);
}

const Device kH200{90, 232448, 132};
const Device kRtx3090{86, 101376, 82};
const Device kT4{75, 65536, 40};
const Device kPascal{61, 49152, 20};

// Cards of each generation, with the shared memory that a block may have.
const Device kCards[] = {{75, 65536, 40},   {80, 166912, 108},  {86, 101376, 84},  {89, 101376, 128},
                         {90, 232448, 132}, {100, 232448, 148}, {120, 101376, 170}};

std::string chosen(const Problem& problem, const Device& device, const Contract& contract = kF32) {
    const Kernel* kernel = choose_kernel(problem, device, contract);
    return kernel == nullptr ? "" : kernel->name;
}

Plan plan_by(const std::string& name, const Problem& problem, const Device& device) {
    return plan_of(*find_kernel(name), problem, device);
}

TEST(ChooseKernel, EveryProblemUpTo256ColumnsHasOneOnEveryCard) {
    for (const Device& card : kCards)
        for (int64_t dim = 1; dim <= 256; ++dim)
            for (const Operation* operation : {&kForward, &kBackward})
                for (const Mask mask : kEveryMask) {
                    const Problem problem = problem_of({1, 1, 1, 100, 100, dim}, mask, *operation);
                    const Kernel* kernel = choose_kernel(problem, card, kF32);
                    ASSERT_NE(kernel, nullptr) << card.arch << " " << dim;
                    EXPECT_EQ(plan_of(*kernel, problem, card).why_not, "");
                }
}

// Only the GPU's limits and d may exclude a kernel of f32: three rungs have code for 32, 64 and 128 alone.
TEST(PlanOf, TakesEveryProblemOfF32OnACardThatNoKernelCanAskTooMuchOf) {
    constexpr Device kAblest{std::numeric_limits<int>::max(), std::numeric_limits<size_t>::max(), 1};
    const std::set<std::string> whole = {"register_tiles", "async_tiles", "woven_tiles"};
    for (const Kernel& kernel : kernels_of(kF32))
        for (int64_t dim = 1; dim <= kernel.needs.most_dim; ++dim) {
            const bool takes = whole.count(kernel.name) == 0 || dim == 32 || dim == 64 || dim == 128;
            const std::string expected = takes ? ""
                                               : "kernel " + std::string(kernel.name) +
                                                     " takes d of 32, 64 and 128, this case has " + std::to_string(dim);
            for (const int64_t tokens : {1, 700, 16384})
                EXPECT_EQ(plan_of(kernel, {3, tokens, dim}, kAblest).why_not, expected);
        }
}

TEST(ChooseKernel, TakesTheFastestThatFits) {
    EXPECT_EQ(chosen({4, 16384, 64}, kH200), "drawn_tiles");
    EXPECT_EQ(chosen({4, 16384, 200}, kH200), "register_rows"); // too many columns for tiles in registers
    EXPECT_EQ(chosen({4, 16384, 64}, kRtx3090), "drawn_tiles");
    EXPECT_EQ(chosen({4, 16384, 128}, kRtx3090), "register_rows"); // too little shared memory
    EXPECT_EQ(chosen({4, 16384, 64}, kT4), "register_rows");       // too old
    EXPECT_EQ(chosen({4, 16384, 64}, kH200, kFixed), "wgmma_shares");
    EXPECT_EQ(chosen({4, 16384, 200}, kH200, kFixed), "mma_groups");
    EXPECT_EQ(chosen({4, 16384, 128}, kH200, kFixed16), "wgmma_pairs");
    EXPECT_EQ(chosen({4, 16384, 200}, kH200, kFixed16), "mma_pairs");
    EXPECT_EQ(chosen({4, 16384, 64}, kRtx3090, kFixed16), "mma_pairs");
    EXPECT_EQ(chosen({4, 16384, 33}, kH200, kBf16), "wgmma_bf16");
    EXPECT_EQ(chosen({4, 16384, 200}, kH200, kBf16), "mma_bf16");
    EXPECT_EQ(chosen({4, 16384, 128}, kH200, kFp16), "wgmma_fp16");
    EXPECT_EQ(chosen({4, 16384, 128}, kRtx3090, kFp16), "mma_fp16");
    EXPECT_EQ(chosen({4, 16384, 64}, kT4, kBf16), "");
}

TEST(ChooseKernel, DividesTheKeysOfFewQueries) {
    Problem problem = Problem(8, 1, 128).of_keys(4096);
    EXPECT_EQ(chosen(problem, kH200), "split_keys");
    problem.queries = 64;
    EXPECT_EQ(chosen(problem, kH200), "split_keys");
    problem.batches = 1000;
    EXPECT_NE(chosen(problem, kH200), "split_keys") << "tiles of rows are full, and so is the GPU";
    problem.by_lengths = true;
    EXPECT_EQ(chosen(problem, kH200), "split_keys") << "no other takes lengths";
    problem.by_lengths = false;
    problem.queries = 2;
    problem.keys = 100;
    EXPECT_NE(chosen(problem, kH200), "split_keys");
    problem.queries = 1;
    EXPECT_EQ(chosen(problem, kH200), "split_keys") << "a tile of one row is nearly empty";
}

TEST(ChooseKernel, DividesTheKeysOfFewHeads) {
    for (const Problem& problem :
         {Problem(8, 256, 64), Problem(8, 128, 128), Problem(1, 4096, 64), causal_problem(2048, 2048, 64)})
        EXPECT_EQ(chosen(problem, kH200), "split_keys") << problem.batches;
    EXPECT_NE(chosen({1, 256, 64}, kRtx3090), "split_keys") << "few warps fit into a block";
    for (const Problem& problem :
         {Problem(8, 512, 64), Problem(8, 1024, 128), Problem(1, 16384, 64), Problem(48, 256, 64), Problem(1, 64, 64),
          Problem(8, 256, 32), Problem(1, 1024, 64).of_keys(131072)}) // its sums would take 700 MB
        EXPECT_NE(chosen(problem, kH200), "split_keys") << problem.batches << ", " << problem.queries;
}

// The choice is the same for every batch size, so the bytes do not depend on the batch.
TEST(ChooseKernel, CutsTheKeysOfFewQueriesOfHalfPrecision) {
    for (const int64_t batches : {1, 1000}) {
        Problem problem = Problem(batches, 16, 128).of_keys(4096);
        EXPECT_EQ(chosen(problem, kH200, kBf16), "split_bf16");
        EXPECT_EQ(chosen(problem, kH200, kFp16), "split_fp16");
        problem.queries = 17;
        EXPECT_EQ(chosen(problem, kH200, kBf16), "wgmma_bf16");
        problem.by_lengths = true;
        EXPECT_EQ(chosen(problem, kH200, kBf16), "split_bf16") << "no other takes lengths";
        for (const int64_t dim : {64, 128, 256}) { // where a block may have 99 KiB too
            problem.dim = dim;
            EXPECT_EQ(chosen(problem, kRtx3090, kBf16), "split_bf16") << dim;
        }
    }
}

TEST(ChooseKernel, TakesTheFastestOfHalfPrecisionsGradients) {
    EXPECT_EQ(chosen(Problem{4, 16384, 33}.of_operation(kBackward), kH200, kBf16), "wgmma_bf16_gradients");
    EXPECT_EQ(chosen(Problem{4, 16384, 128}.of_operation(kBackward), kH200, kFp16), "wgmma_fp16_gradients");
    EXPECT_EQ(chosen(Problem{4, 16384, 200}.of_operation(kBackward), kH200, kBf16), "mma_bf16_gradients");
    EXPECT_EQ(chosen(Problem{4, 16384, 64}.of_operation(kBackward), kRtx3090, kFp16), "mma_fp16_gradients");
    EXPECT_EQ(chosen(Problem{4, 16384, 64}.of_operation(kBackward), kT4, kBf16), "");
    EXPECT_EQ(chosen(Problem{100000, 8, 64}.of_operation(kBackward), kH200, kBf16), "mma_bf16_gradients");
}

Problem key_block(Problem problem, int64_t first_key, int64_t keys) {
    problem.operation = &kKeyGradients;
    problem.first_key = first_key;
    problem.block_keys = keys;
    return problem;
}

TEST(ChooseKernel, TakesTheSameForPartsOfBackwardOrNone) {
    const Problem problem{1, 4096, 64};
    EXPECT_EQ(chosen(problem.of_operation(kQueryGradients), kH200), "kept_pairs");
    EXPECT_EQ(chosen(key_block(problem, 1024, 64), kH200), "kept_pairs");
    EXPECT_EQ(chosen(key_block(problem, 4095, 1), kH200), "shared_gradients"); // most of a tile would be padding
    EXPECT_EQ(chosen(key_block(problem, 1024, 64), kT4), "shared_gradients");
    EXPECT_EQ(chosen(key_block(problem, 1024, 64), kH200, kBf16), "");
    EXPECT_EQ(plan_by("mma_bf16_gradients", problem.of_operation(kQueryGradients), kH200).why_not,
              "kernel mma_bf16_gradients gives all gradients of a head of keys or none");
}

// Three rows of tiles for two blocks: 396 of 128 rows for the 264 blocks of an H200 at d = 64.
TEST(ChooseKernel, DrawsFromAQueueWhereThatPays) {
    EXPECT_EQ(chosen({396, 128, 64}, kH200), "drawn_tiles");
    EXPECT_EQ(chosen({60, 128, 64}, kH200), "woven_tiles");
    EXPECT_EQ(chosen({132, 128, 64}, kH200), "woven_tiles");
    for (const int64_t dim : {1, 33, 100}) EXPECT_EQ(chosen({60, 128, dim}, kH200), "drawn_tiles") << "the only tiles";
    const Plan few = plan_by("drawn_tiles", {1, 128, 64}, kH200);
    EXPECT_EQ(few.why_not, "") << "it can all the same";
    EXPECT_FALSE(few.pays);
    EXPECT_EQ(chosen(problem_of({1, 396, 1, 128, 128, 64}), kH200), "drawn_tiles");
    EXPECT_EQ(chosen(Problem(60, 128, 64).of_keys(16384), kH200), "woven_tiles");
}

TEST(ChooseKernel, StaysWithinTheContract) {
    for (const Device& card : kCards)
        for (const Contract* contract : contracts())
            for (const int64_t dim : {1, 64, 256})
                if (const Kernel* kernel = choose_kernel({1, 1, dim}, card, *contract))
                    EXPECT_EQ(kernel->under, contract) << kernel->name;
}

// A build for older GPUs runs on newer ones only as PTX: kernels without code for the GPU must not be chosen.
TEST(CodeArch, IsTheNewestTheCardRuns) {
    EXPECT_EQ(code_arch(90, {{75, 80, 90}, 90}), 90);
    EXPECT_EQ(code_arch(89, {{75, 80, 86, 90}, 90}), 86);
    EXPECT_EQ(code_arch(80, {{75, 90}, 90}), 0);
    EXPECT_EQ(code_arch(75, {{80}, 80}), 0);
    // PTX
    EXPECT_EQ(code_arch(90, {{75}, 75}), 75);
    EXPECT_EQ(code_arch(121, {{75, 90}, 90}), 90);
    EXPECT_EQ(code_arch(80, {{90}, 80}), 80);
    EXPECT_EQ(code_arch(100, {{90}, 80}), 80);
    EXPECT_EQ(code_arch(90, {{90}, 80}), 90);
    EXPECT_EQ(code_arch(75, {{90}, 80}), 0);
}

TEST(ChooseKernel, LeavesOutKernelsThatTheBuildHasNoCodeFor) {
    const Device newer_than_the_build{90, 232448, 132, 75};
    EXPECT_EQ(chosen({4, 16384, 64}, newer_than_the_build), "register_rows");
    EXPECT_EQ(plan_by("woven_tiles", {1, 1, 64}, newer_than_the_build).why_not,
              "kernel woven_tiles needs code for compute capability 8.0, what this build runs on this GPU is for 7.5; "
              "make ARCHS=90 makes one with it");
}

TEST(PlanOf, RefusesMoreRowsThanAGridHas) {
    Problem problem{1, 1 << 25, 32};
    problem.heads = problem.kv_heads = 1 << 6;
    for (const Kernel& kernel : kernels_of(kF32)) EXPECT_EQ(plan_of(kernel, problem, kH200).why_not, "") << kernel.name;
    problem.heads = problem.kv_heads = 1 << 30;
    for (const Kernel& kernel : kernels()) {
        problem.operation = kernel.does;
        EXPECT_EQ(plan_of(kernel, problem, kH200).why_not,
                  "kernel " + std::string(kernel.name) +
                      " takes up to 2147483648 rows of Q in a batch, this case has 36028797018963968");
    }
}

size_t scratch_bytes(const std::string& name, const Problem& problem) {
    return plan_by(name, problem, kH200).scratch_bytes;
}

TEST(Scratch, IsAskedForOnlyWhereWorkIsDivided) {
    for (const Kernel& kernel : kernels_of(kF32))
        if (std::string(kernel.name) != "drawn_tiles" && std::string(kernel.name) != "split_keys")
            EXPECT_EQ(plan_of(kernel, {4, 16384, 64}, kH200).scratch_bytes, 0u) << kernel.name;
    EXPECT_GT(scratch_bytes("drawn_tiles", {4, 16384, 64}), 0u);
    EXPECT_LT(scratch_bytes("drawn_tiles", {4, 16384, 64}), size_t{32} << 20);
    EXPECT_GT(scratch_bytes("drawn_tiles", {1, 1, 64}), 0u);
    EXPECT_LT(scratch_bytes("drawn_tiles", {1, 1, 64}), size_t{64} << 10) << "as much as few rows need";
    for (const int64_t dim : {32, 64, 128}) // enough to fill the GPU several times
        for (int64_t batches = 500; batches < 2000; ++batches)
            EXPECT_LE(scratch_bytes("drawn_tiles", {batches, 128, dim}),
                      scratch_bytes("drawn_tiles", {batches + 1, 128, dim}));
}

// Part of the batches may select other blocks than the whole, and in backward another forward kernel.
TEST(Scratch, IsEnoughForAPartOfTheBatches) {
    for (const Kernel& kernel : kernels()) {
        if (kernel.under->compared != Compared::bytes) continue;
        for (const int64_t dim : {32, 64, 128, 200})
            for (const int64_t tokens : {128, 1100})
                for (const Mask mask : kEveryMask)
                    for (int64_t batches = 1; batches < 500; ++batches) {
                        const Problem problem = problem_of({batches, 1, 1, tokens, tokens, dim}, mask, *kernel.does);
                        ASSERT_LE(plan_of(kernel, problem, kH200).scratch_bytes,
                                  plan_of(kernel, problem.of_batches(batches + 1), kH200).scratch_bytes)
                            << kernel.name;
                    }
    }
}

// Q, K, V and O at half the bytes where they are converted.
TEST(Scratch, OfHalfPrecisionIsForConvertedTensors) {
    constexpr size_t kCounter = 4;
    for (const Contract* contract : {&kBf16, &kFp16})
        for (const Kernel& kernel : kernels_of(*contract)) {
            if (kernel.needs.lengths) continue; // it has partial sums
            EXPECT_EQ(scratch_bytes(kernel.name, {4, 16384, 64}), kCounter + size_t{4} * 4 * 16384 * 64 * 2);
            EXPECT_EQ(scratch_bytes(kernel.name, {4, 16384, 57}), scratch_bytes(kernel.name, {4, 16384, 64}));
            EXPECT_EQ(scratch_bytes(kernel.name, {1, 1, 1}), kCounter + 4 * 256u);
            Problem problem{4, 16384, 64};
            problem.element = contract->element;
            EXPECT_EQ(scratch_bytes(kernel.name, problem), kCounter) << "nothing is converted";
        }
}

// Eight tensors at half the bytes where they are converted; O, the rows' statistics, L, origin and D; sums of dQ where
// blocks of keys add to them.
TEST(Scratch, OfHalfPrecisionsGradientsIsForAllThatIsBetween) {
    const size_t rows = 4 * 16384;
    Problem problem = Problem{4, 16384, 64}.of_operation(kBackward);
    const size_t turns = 4 * (4 + rows / 64);
    const size_t tensor = rows * 64 * 2;
    const size_t own = 256 + tensor + rows * sizeof(RowStatistics) + 3 * rows * 4 + (turns + 240);
    for (const char* const name : {"mma_bf16_gradients", "mma_fp16_gradients"})
        EXPECT_EQ(scratch_bytes(name, problem), 8 * tensor + own);
    for (const char* const name : {"wgmma_bf16_gradients", "wgmma_fp16_gradients"})
        EXPECT_EQ(scratch_bytes(name, problem), 8 * tensor + own + rows * 64 * 4);
    problem.element = Element::bf16;
    EXPECT_EQ(scratch_bytes("mma_bf16_gradients", problem), own);
}

TEST(PlanOf, RefusesHeadsOfHalfPrecisionWithMoreRowsThanTheirNumbersHave) {
    Problem problem = Problem(1, 64, 8).of_keys((int64_t{1} << 30) + 1);
    EXPECT_EQ(plan_by("wgmma_bf16", problem, kH200).why_not,
              "kernel wgmma_bf16 takes up to 1073741824 rows in a head, this case has 1073741825");
    problem.keys = int64_t{1} << 30;
    EXPECT_EQ(plan_by("wgmma_bf16", problem, kH200).why_not, "");
}

TEST(ChooseKernel, SaysNoBeyondWhatTheKernelsCan) {
    EXPECT_EQ(chosen({1, 1, 257}, kH200), "");
    EXPECT_EQ(chosen({1, 1, 64}, kPascal), "");
    EXPECT_EQ(plan_by("register_rows", {1, 1, 300}, kH200).why_not,
              "kernel register_rows takes d up to 256, this case has 300");
    EXPECT_EQ(plan_by("drawn_tiles", {1, 1, 200}, kH200).why_not,
              "kernel drawn_tiles takes d up to 128, this case has 200");
    EXPECT_EQ(plan_by("register_rows", {1, 1, 64}, kPascal).why_not,
              "kernel register_rows needs compute capability 7.5, this GPU has 6.1");
    EXPECT_NE(plan_by("woven_tiles", {1, 1, 128}, kRtx3090).why_not.find("bytes of shared memory a block"),
              std::string::npos);
    EXPECT_EQ(plan_by("woven_tiles", {1, int64_t{1} << 31, 64}, kH200).why_not,
              "kernel woven_tiles takes up to 2147482623 rows, this case has 2147483648");
    EXPECT_EQ(chosen({1, int64_t{1} << 31, 64}, kH200), "register_rows");
    EXPECT_EQ(plan_by("woven_tiles", causal_problem(1, 1, 64), kH200).why_not,
              "kernel woven_tiles lacks the mask causal");
    const Problem backward = Problem(1, 1, 64).of_operation(kBackward);
    EXPECT_EQ(plan_by("plain_rows", backward, kH200).why_not,
              "kernel plain_rows computes forward, this case asks for backward");
    EXPECT_EQ(plan_by("plain_gradients", {1, 1, 64}, kH200).why_not,
              "kernel plain_gradients computes backward, this case asks for forward");
    EXPECT_EQ(chosen(backward, kH200, kFixed), "");
}

// With a mask even few rows are drawn from the queue: no other tile kernel takes a mask.
TEST(ChooseKernel, TakesTheTopKernelUnderAMask) {
    for (const int64_t batches : {4, 8, 500}) {
        const Problem causal = causal_problem(2048, 2048, 64).of_batches(batches);
        EXPECT_EQ(chosen(causal, kH200), "drawn_tiles");
        EXPECT_EQ(plan_by("drawn_tiles", causal, kH200).why_not, "");
    }
    EXPECT_EQ(chosen(causal_problem(100, 100, 200), kH200), "register_rows");
}

} // namespace
} // namespace hw4::gpu
