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

TEST(ChooseKernel, EveryShapeUpTo256ColumnsHasOneOnEveryCard) {
    for (const int arch : {75, 80, 86, 89, 90, 100, 120})
        for (int64_t dim = 1; dim <= 256; ++dim) {
            const Kernel* kernel = choose_kernel({1, 1, dim}, arch);
            ASSERT_NE(kernel, nullptr) << arch << " " << dim;
            EXPECT_GE(kernel->max_dim, dim);
            EXPECT_LE(kernel->min_arch, arch);
        }
}

TEST(ChooseKernel, SaysNoBeyondWhatTheKernelsCan) {
    EXPECT_EQ(choose_kernel({1, 1, 257}, 90), nullptr);
    EXPECT_EQ(choose_kernel({1, 1, 64}, 61), nullptr);
}

} // namespace
} // namespace hw4::gpu
