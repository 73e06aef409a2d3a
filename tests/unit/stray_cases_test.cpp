// Whether the cases of stray_cases.h can fail: no GPU needed.
#include "tests/support/stray_cases.h"

#include <gtest/gtest.h>

#include "src/contracts/contract.h"
#include "src/problem/domain.h"

namespace hw4 {
namespace {

class StrayCases : public testing::TestWithParam<int64_t> {};

TEST_P(StrayCases, DifferFromAKernelThatDoesNotNotice) {
    const int64_t d = GetParam();
    for (const int64_t n : {40, 100, 128, 200, 700})
        for (const Stray& stray : strays(n, d)) {
            const AttentionCase test = stray_case(stray, d);
            ASSERT_NO_THROW(
                DomainCheck("", test.problem, kF32.domain).check(0, test.problem.batch_input_rows(), test.qkv.data()))
                << test.name;
            const float* q = test.qkv.data();
            const float* expected = test.expected.data() + stray.row * d;
            const std::vector<float> unnoticed =
                attend_unnoticed(q + stray.row * d, q + test.problem.batch_output_floats(),
                                 q + 2 * test.problem.batch_output_floats(), n, d);
            const bool same = static_cast<bool>(same_bytes({expected, expected + d}, unnoticed));
            EXPECT_EQ(same, !stray.shows) << test.name;
        }
}

INSTANTIATE_TEST_SUITE_P(Columns, StrayCases, testing::Values(1, 64, 128), testing::PrintToStringParamName());

// The batches of a full card include every kind: high, deep and low, in each warp of a block.
TEST(StrayBatches, EveryOtherStrays) {
    const AttentionCase test = stray_batches(5, 128, 64);
    const std::vector<Stray> all = strays(128, 64);
    int showing = 0;
    for (const Stray& stray : all) showing += stray.shows;
    EXPECT_EQ(showing, 4 * 8);
    for (int64_t b = 0; b < 5; ++b) {
        const float* q = test.qkv.data() + static_cast<size_t>(b) * test.problem.batch_input_floats();
        float largest = 0.0f;
        for (size_t i = 0; i < test.problem.batch_output_floats(); ++i)
            largest = std::max(largest, std::abs(q[test.problem.batch_output_floats() + i]) * scale_for(64).c);
        EXPECT_EQ(largest > 2.0f, b % 2 == 0) << b;
    }
}

} // namespace
} // namespace hw4
