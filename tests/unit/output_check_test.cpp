#include "src/bench/output_check.h"

#include <gtest/gtest.h>

#include <limits>

namespace hw4::gpu {
namespace {

std::string complaint(const std::vector<float>& expected, const std::vector<float>& output) {
    try {
        require_same_bytes(expected, output, "4 rows, 32 keys");
    } catch (const Error& error) {
        return error.code() == ExitCode::internal ? error.what() : "with another code";
    }
    return "";
}

TEST(OutputCheck, TakesTheSameBytes) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(complaint({1.0f, -0.0f, nan}, {1.0f, -0.0f, nan}), "");
    EXPECT_EQ(complaint({}, {}), "");
}

TEST(OutputCheck, NamesTheFirstDifference) {
    EXPECT_EQ(complaint({1.0f, 0.0f, 2.0f}, {1.0f, -0.0f, 3.0f}),
              "4 rows, 32 keys: wrong bytes: value 1 is -0 (80000000), not 0 (00000000)");
    EXPECT_EQ(complaint({1.0f}, {1.0f, 2.0f}), "4 rows, 32 keys: wrong bytes: another number of values");
}

} // namespace
} // namespace hw4::gpu
