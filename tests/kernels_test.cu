// The table of kernels and the choice from it: no GPU needed.
#include "../src/gpu/kernels.h"

#include <gtest/gtest.h>

#include <set>

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

// Cards of each kind, with the shared memory a block may have.
const Device kCards[] = {{75, 65536},  {80, 166912},  {86, 101376}, {89, 101376},
                         {90, 232448}, {100, 232448}, {120, 101376}};

TEST(ChooseKernel, EveryShapeUpTo256ColumnsHasOneOnEveryCard) {
    for (const Device& card : kCards)
        for (int64_t dim = 1; dim <= 256; ++dim) {
            const Kernel* kernel = choose_kernel({1, 1, dim}, card);
            ASSERT_NE(kernel, nullptr) << card.arch << " " << dim;
            EXPECT_EQ(why_not(*kernel, {1, 1, dim}, card), "");
        }
}

TEST(ChooseKernel, TakesTheFastestThatFits) {
    EXPECT_STREQ(choose_kernel({4, 16384, 64}, {90, 232448})->name, "outer_product");
    EXPECT_STREQ(choose_kernel({4, 16384, 64}, {86, 101376})->name, "register_rows"); // too little shared memory
    EXPECT_STREQ(choose_kernel({4, 16384, 32}, {86, 101376})->name, "outer_product");
    EXPECT_STREQ(choose_kernel({4, 16384, 64}, {75, 65536})->name, "register_rows");
    EXPECT_STREQ(choose_kernel({4, 16384, 200}, {75, 65536})->name, "register_rows");
}

TEST(ChooseKernel, SaysNoBeyondWhatTheKernelsCan) {
    EXPECT_EQ(choose_kernel({1, 1, 257}, {90, 232448}), nullptr);
    EXPECT_EQ(choose_kernel({1, 1, 64}, {61, 49152}), nullptr);
    EXPECT_EQ(why_not(*find_kernel("register_rows"), {1, 1, 300}, {90, 232448}),
              "kernel register_rows takes d up to 256, this case has 300");
    EXPECT_EQ(why_not(*find_kernel("register_rows"), {1, 1, 64}, {61, 49152}),
              "kernel register_rows needs compute capability 7.5, this card has 6.1");
    EXPECT_NE(why_not(*find_kernel("outer_product"), {1, 1, 64}, {86, 101376}).find("bytes of shared memory a block"),
              std::string::npos);
}

} // namespace
} // namespace hw4::gpu
