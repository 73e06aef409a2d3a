// The statistics that the references give for each row, against the definition of a logsumexp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/problem/tensor.h"
#include "tests/support/attention_case.h"
#include "tests/support/digit_tiles.h"
#include "tests/support/problems.h"
#include "tests/support/subject.h"

namespace hw4 {
namespace {

std::vector<float> logsumexps_of(const AttentionCase& test) {
    std::vector<float> list(test.statistics.size());
    logsumexps(*test.contract, test.problem, test.statistics.data(), test.problem.output_rows(), list.data());
    return list;
}

// A row by its definition, and the largest allowed error.
struct Exact {
    long double logsumexp = -HUGE_VALL;
    double bound = 0;
};

// The row of a query of the first head, and its visible keys.
Exact exact_row(const AttentionCase& test, int64_t query) {
    const Problem& problem = test.problem;
    const int64_t dim = problem.dim;
    const float* const q = test.qkv.data() + query * dim;
    const float* const k = test.qkv.data() + problem.queries * dim;
    const long double root = std::sqrt(static_cast<long double>(dim));
    std::vector<long double> scores;
    double products = 0; // the largest sum of magnitudes
    for (int64_t key = 0; key < visible_keys(problem.mask, problem.queries, problem.keys, query); ++key) {
        double sum = 0;
        double magnitudes = 0;
        for (int64_t t = 0; t < dim; ++t) {
            sum += double{q[t]} * k[key * dim + t];
            magnitudes += std::fabs(double{q[t]} * k[key * dim + t]);
        }
        scores.push_back(sum / root);
        products = std::max(products, magnitudes / static_cast<double>(root));
    }
    if (scores.empty()) return {};
    const long double top = *std::max_element(scores.begin(), scores.end());
    long double sum = 0;
    for (const long double score : scores) sum += std::exp(static_cast<double>(score - top));
    const auto largest = [](const float* x, int64_t count) {
        float most = 0x1p-126f;
        for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(x[i]));
        return double{most};
    };
    // f32: a score's chains and c. fixed: the errors that its header states; fixed16: a coarser unit for the score and
    // for the weights. Then the weights and their sums.
    const double unit = digit_unit_of(*test.contract);
    const double of_digits =
        (1.25 * static_cast<double>(dim) + 1) *
            std::max(8 * unit * largest(q, dim) * largest(k, problem.keys * dim) / static_cast<double>(root),
                     test.contract == &kFixed16 ? 0x1p-12 : 0) +
        (test.contract == &kFixed16 ? 0x1p-10 : 0x1p-22);
    const double of_score = test.contract == &kF32 ? 0 : of_digits;
    return {top + std::log(sum), of_score + 0x1p-20 * products + 1e-6};
}

class StatisticsOf : public testing::TestWithParam<const Contract*> {};

TEST_P(StatisticsOf, ARowGiveItsLogsumexp) {
    double largest = 0;
    for (const Problem& problem :
         {Problem{1, 1, 1}, Problem{1, 40, 1}, Problem{1, 70, 33}, Problem{1, 129, 64}, Problem{1, 65, 256},
          causal_problem(70, 70, 33), causal_problem(40, 97, 8), causal_problem(97, 40, 8)})
        for (const CaseKind kind : kAllKinds) {
            const AttentionCase& test = reference_case(problem, kind, 11, *GetParam());
            const std::vector<float> got = logsumexps_of(test);
            for (int64_t query = 0; query < problem.queries; ++query) {
                const Exact exact = exact_row(test, query);
                const float row = got[static_cast<size_t>(query)];
                if (std::isinf(exact.logsumexp)) {
                    EXPECT_EQ(row, -HUGE_VALF) << test.name << ", row " << query;
                    continue;
                }
                const auto error = static_cast<double>(std::fabs(row - exact.logsumexp));
                EXPECT_LE(error, exact.bound) << test.name << ", row " << query << ": " << row;
                largest = std::max(largest, error / exact.bound);
            }
        }
    std::printf("largest error: %.3f of what it may be\n", largest);
    EXPECT_GT(largest, 0.01); // the bound is meaningful
}

TEST(WhyNoStatistics, IsThatTheOperationHasNone) {
    Problem problem(1, 2, 3);
    EXPECT_EQ(why_no_statistics(kF32, problem), "");
    EXPECT_EQ(why_no_statistics(kFixed, problem), "");
    problem.operation = &kBackward;
    EXPECT_EQ(why_no_statistics(kF32, problem), "asks for backward, whose rows have no logsumexp for --lse");
}

INSTANTIATE_TEST_SUITE_P(Contracts, StatisticsOf, testing::ValuesIn(contracts_by_bytes()),
                         [](const auto& instance) { return std::string(instance.param->name); });

} // namespace
} // namespace hw4
