// The bound of the GPU's kernels of half precision holds for what is computed like that, and for little else.
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

// Rows as the kernels compute them: scores in float32, weights rounded to the type, their sum not.
std::vector<float> computed_like_that(const Problem& problem, Element element, const std::vector<float>& qkv) {
    const auto dim = static_cast<size_t>(problem.dim);
    std::vector<float> in(qkv.size());
    round_all(element, qkv.data(), qkv.size(), in.data());
    std::vector<float> out(problem.floats_in(problem.output_rows()));
    const auto operand = [&](size_t i) {
        return operand_at<const float>(problem, problem.operation->inputs, i, in.data(), dim);
    };
    const auto scale = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(dim)));
    for (int64_t row = 0; row < problem.output_rows(); ++row) {
        const int64_t unit = row / problem.queries;
        const int64_t query = row % problem.queries;
        const int64_t head = unit % problem.heads * problem.kv_heads / problem.heads;
        const float* const q = operand(0).of(unit / problem.heads, unit % problem.heads) + query * problem.dim;
        const float* const k = operand(1).of(unit / problem.heads, head);
        const float* const v = operand(2).of(unit / problem.heads, head);
        std::vector<float> scores;
        for (int64_t key = 0; key < visible_keys(problem.mask, problem.queries, problem.keys, query); ++key) {
            float score = 0;
            for (size_t t = 0; t < dim; ++t) score = std::fma(q[t], k[static_cast<size_t>(key) * dim + t], score);
            scores.push_back(score * scale);
        }
        if (scores.empty()) continue;
        const float top = *std::max_element(scores.begin(), scores.end());
        float sum = 0;
        std::vector<float> sums(dim);
        for (size_t key = 0; key < scores.size(); ++key) {
            const float weight = std::exp2(scores[key] - top);
            sum += weight;
            for (size_t t = 0; t < dim; ++t) sums[t] += rounded_to(element, weight) * v[key * dim + t];
        }
        for (size_t t = 0; t < dim; ++t) out[static_cast<size_t>(row) * dim + t] = rounded_to(element, sums[t] / sum);
    }
    return out;
}

class HalfBound : public testing::TestWithParam<const Contract*> {};

TEST_P(HalfBound, HoldsForWhatIsComputedLikeThat) {
    const Element element = GetParam()->element;
    for (const Problem& problem : {Problem{1, 200, 64}, Problem{1, 1, 1}, Problem{1, 70, 128}, causal_heads()})
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::equal}) {
            const AttentionCase test(problem, kind, 3, *GetParam());
            const HalfRows rows(problem, element, test.qkv);
            EXPECT_TRUE(rows.hold(test.expected)) << test.name;
            EXPECT_TRUE(rows.hold(computed_like_that(problem, element, test.qkv))) << test.name;
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
