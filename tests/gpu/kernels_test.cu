// The table of kernels and the choice from it: no GPU needed.
#include "src/gpu/kernels.h"

#include <gtest/gtest.h>

#include <set>

#include "src/gpu/f32/forward/tile_choice.h"

namespace hw4::gpu {
namespace {

TEST(KernelTable, NamesAreUniqueAndFound) {
    std::set<std::string> names;
    for (const Kernel& kernel : kernels()) {
        EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
        EXPECT_EQ(find_kernel(kernel.name), &kernel);
        EXPECT_NE(std::string(kernel.idea), "") << kernel.name;
        EXPECT_NE(kernel.launch, nullptr) << kernel.name;
    }
    EXPECT_FALSE(names.empty());
}

TEST(KernelTable, AnUnknownNameIsNotReplacedByAnother) {
    EXPECT_EQ(find_kernel("fastest"), nullptr);
    EXPECT_EQ(find_kernel(""), nullptr);
}

const Device kH200{90, 232448, 132};
const Device kRtx3090{86, 101376, 82};
const Device kT4{75, 65536, 40};
const Device kPascal{61, 49152, 20};

// Cards of each kind, with the shared memory a block may have.
const Device kCards[] = {{75, 65536, 40},   {80, 166912, 108},  {86, 101376, 84},  {89, 101376, 128},
                         {90, 232448, 132}, {100, 232448, 148}, {120, 101376, 170}};

TEST(ChooseKernel, EveryShapeUpTo256ColumnsHasOneOnEveryCard) {
    for (const Device& card : kCards)
        for (int64_t dim = 1; dim <= 256; ++dim) {
            const Kernel* kernel = choose_kernel({1, 1, dim}, card);
            ASSERT_NE(kernel, nullptr) << card.arch << " " << dim;
            EXPECT_EQ(why_not(*kernel, {1, 1, dim}, card), "");
        }
}

TEST(ChooseKernel, TakesTheFastestThatFits) {
    EXPECT_STREQ(choose_kernel({4, 16384, 64}, kH200)->name, "drawn_tiles");
    EXPECT_STREQ(choose_kernel({4, 16384, 200}, kH200)->name, "drawn_tiles");
    EXPECT_STREQ(choose_kernel({4, 16384, 64}, kRtx3090)->name, "drawn_tiles");
    EXPECT_STREQ(choose_kernel({4, 16384, 128}, kRtx3090)->name, "register_rows"); // too little shared memory
    EXPECT_STREQ(choose_kernel({4, 16384, 64}, kT4)->name, "register_rows");       // too old
}

TEST(ChooseKernel, StaysWithinTheContract) {
    for (const Device& card : kCards)
        for (const Arithmetic arithmetic : kArithmetics)
            for (const int64_t dim : {1, 64, 256})
                if (const Kernel* kernel = choose_kernel({1, 1, dim}, card, arithmetic)) {
                    EXPECT_EQ(kernel->arithmetic, arithmetic) << kernel->name;
                }
    EXPECT_EQ(choose_kernel({1, 1, 64}, kPascal, Arithmetic::fixed), nullptr);
}

TEST(KernelTable, HasTheKernelsOfAContractTogether) {
    std::vector<Kernel> grouped = kernels_of(Arithmetic::f32);
    const std::vector<Kernel> fixed = kernels_of(Arithmetic::fixed);
    EXPECT_FALSE(grouped.empty());
    grouped.insert(grouped.end(), fixed.begin(), fixed.end());
    ASSERT_EQ(grouped.size(), kernels().size());
    for (size_t i = 0; i < grouped.size(); ++i) EXPECT_STREQ(grouped[i].name, kernels()[i].name);
}

// A build for older cards only runs on newer ones as PTX: kernels whose code it does not have must not be taken.
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
    EXPECT_STREQ(choose_kernel({4, 16384, 64}, newer_than_the_build)->name, "register_rows");
    EXPECT_EQ(why_not(*find_kernel("woven_tiles"), {1, 1, 64}, newer_than_the_build),
              "kernel woven_tiles needs code for compute capability 8.0, what this build runs on this card is for 7.5; "
              "make ARCHS=90 makes one with it");
}

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

TEST(KernelArgs, OfAShapeAreAllOfItsBatchesAndQueries) {
    float qkv = 0;
    float out = 0;
    float scratch = 0;
    const KernelArgs args = args_of({3, 50, 7}, &qkv, 8, &out, 9, &scratch);
    EXPECT_EQ(args.qkv, &qkv);
    EXPECT_EQ(args.qkv_stride, 8u);
    EXPECT_EQ(args.out, &out);
    EXPECT_EQ(args.out_stride, 9u);
    EXPECT_EQ(args.batches, 3);
    EXPECT_EQ(args.tokens, 50);
    EXPECT_EQ(args.dim, 7);
    EXPECT_EQ(args.scale.c, scale_for(7).c);
    EXPECT_EQ(args.scratch, &scratch);
    EXPECT_EQ(args.first_query, 0);
    EXPECT_EQ(queries_of(args), 50);
}

TEST(Scratch, IsAskedForOnlyWhereWorkIsDrawn) {
    for (const Kernel& kernel : kernels_of(Arithmetic::f32))
        if (std::string(kernel.name) != "drawn_tiles") EXPECT_EQ(kernel.scratch_bytes({4, 16384, 64}, kH200), 0u);
    const Kernel& drawn = *find_kernel("drawn_tiles");
    EXPECT_GT(drawn.scratch_bytes({4, 16384, 64}, kH200), 0u);
    EXPECT_LT(drawn.scratch_bytes({4, 16384, 64}, kH200), size_t{32} << 20);
    EXPECT_EQ(drawn.scratch_bytes({1, 128, 64}, kH200), 0u);
    EXPECT_EQ(drawn.scratch_bytes({4, 16384, 200}, kH200), 0u);
    for (const int64_t dim : {32, 64, 128}) // enough for a part of the batches too
        for (int64_t batches = 1; batches < 2000; ++batches)
            EXPECT_LE(drawn.scratch_bytes({batches, 128, dim}, kH200),
                      drawn.scratch_bytes({batches + 1, 128, dim}, kH200));
}

TEST(Scratch, OfFixedKernelsIsEnoughForAPartOfTheBatches) {
    for (const Kernel& kernel : kernels_of(Arithmetic::fixed))
        for (const int64_t dim : {32, 64, 128})
            for (const int64_t tokens : {100, 1100})
                for (int64_t batches = 1; batches < 500; ++batches)
                    ASSERT_LE(kernel.scratch_bytes({batches, tokens, dim}, kH200),
                              kernel.scratch_bytes({batches + 1, tokens, dim}, kH200))
                        << kernel.name;
    // Little more than what the digits take.
    const Kernel& shares = *find_kernel("wgmma_shares");
    const Kernel& groups = *find_kernel("wgmma_groups");
    EXPECT_GT(shares.scratch_bytes({4, 16384, 64}, kH200), groups.scratch_bytes({4, 16384, 64}, kH200));
    EXPECT_LT(shares.scratch_bytes({4, 16384, 64}, kH200),
              groups.scratch_bytes({4, 16384, 64}, kH200) + (size_t{16} << 20));
    EXPECT_EQ(shares.scratch_bytes({1, 100, 64}, kH200), groups.scratch_bytes({1, 100, 64}, kH200));
}

TEST(ChooseKernel, SaysNoBeyondWhatTheKernelsCan) {
    EXPECT_EQ(choose_kernel({1, 1, 257}, kH200), nullptr);
    EXPECT_EQ(choose_kernel({1, 1, 64}, kPascal), nullptr);
    EXPECT_EQ(why_not(*find_kernel("register_rows"), {1, 1, 300}, kH200),
              "kernel register_rows takes d up to 256, this case has 300");
    EXPECT_EQ(why_not(*find_kernel("register_rows"), {1, 1, 64}, kPascal),
              "kernel register_rows needs compute capability 7.5, this card has 6.1");
    EXPECT_NE(why_not(*find_kernel("woven_tiles"), {1, 1, 128}, kRtx3090).find("bytes of shared memory a block"),
              std::string::npos);
}

} // namespace
} // namespace hw4::gpu
