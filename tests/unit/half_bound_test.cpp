// The bound of the GPU's kernels of half precision holds for the contract's reference, and for little else.
#include "tests/support/half_bound.h"

#include <gtest/gtest.h>

#include "tests/support/attention_case.h"

namespace hw4 {
namespace {

Problem causal_heads() {
    Problem problem(2, 40, 33);
    problem.heads = 4;
    problem.kv_heads = 2;
    problem.keys = 30;
    problem.mask = Mask::causal;
    return problem;
}

class HalfBound : public testing::TestWithParam<const Contract*> {};

TEST_P(HalfBound, HoldsForTheReference) {
    const Element element = GetParam()->element;
    for (const Problem& problem : {Problem{1, 200, 64}, Problem{1, 1, 1}, Problem{1, 70, 128}, causal_heads()})
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::equal}) {
            const AttentionCase test(problem, kind, 3, *GetParam());
            EXPECT_TRUE(HalfRows(problem, element, test.qkv).hold(test.expected)) << test.name;
        }
}

// An output of the type that is off by a few of its units, one that is not of the type, a NaN, another row's.
TEST_P(HalfBound, DoesNotHoldForWhatIsWrong) {
    const Element element = GetParam()->element;
    const AttentionCase test({1, 60, 64}, CaseKind::uniform, 3, *GetParam());
    const HalfRows rows(test.problem, element, test.qkv);
    const double unit = element == Element::bf16 ? 0x1p-8 : 0x1p-11;
    for (const float wrong : {rounded_to(element, test.expected[100] + static_cast<float>(8 * unit)),
                              test.expected[100] * 1.00001f, NAN, test.expected[100 + 64]}) {
        std::vector<float> out = test.expected;
        out[100] = wrong;
        EXPECT_FALSE(rows.hold(out)) << wrong;
    }
}

TEST_P(HalfBound, OfTheLogsumexpHoldsForTheReference) {
    const AttentionCase test(causal_heads(), CaseKind::uniform, 3, *GetParam());
    const HalfRows rows(test.problem, GetParam()->element, test.qkv);
    std::vector<float> sums(test.statistics.size());
    logsumexps(*GetParam(), test.problem, test.statistics.data(), test.problem.output_rows(), sums.data());
    for (int64_t row = 0; row < test.problem.output_rows(); ++row) {
        const HalfRow exact = rows.row(row);
        if (sums[static_cast<size_t>(row)] == -HUGE_VALF)
            EXPECT_EQ(exact.logsumexp, -HUGE_VAL);
        else
            EXPECT_NEAR(sums[static_cast<size_t>(row)], exact.logsumexp, exact.logsumexp_bound);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfBound, testing::Values(&kBf16, &kFp16),
                         [](const auto& instance) { return std::string(instance.param->name); });

} // namespace
} // namespace hw4
