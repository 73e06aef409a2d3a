#include "src/problem/problem.h"

#include <gtest/gtest.h>

namespace hw4 {
namespace {

TEST(Problem, SizesOfASmallCase) {
    const Problem problem{2, 3, 5};
    EXPECT_EQ(problem.batch_output_floats(), 15u);
    EXPECT_EQ(problem.batch_input_floats(), 45u);
    EXPECT_EQ(problem.batch_input_bytes(), 180u);
    EXPECT_EQ(problem.batch_output_bytes(), 60u);
    EXPECT_EQ(problem.output_bytes(), 120u);
    EXPECT_EQ(problem.flops(), 4.0 * 2 * 3 * 3 * 5);
}

// The largest case that a reader accepts has just under 2^63 bytes.
TEST(Problem, SizesOfTheLargestCase) {
    const Problem problem{1, 0x7fffffff, 0x15555555};
    const size_t floats = size_t{0x7fffffff} * 0x15555555;
    EXPECT_EQ(problem.batch_input_bytes() / 12, floats);
    EXPECT_LT(problem.batch_input_bytes(), size_t{1} << 63);
    EXPECT_EQ(problem.output_bytes(), 4 * floats);
    EXPECT_EQ(Problem(1 << 10, int64_t{1} << 30, 1 << 6).flops(), 0x1p78);
}

} // namespace
} // namespace hw4
