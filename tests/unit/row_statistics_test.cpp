// The statistics that the references give for each row, against the definition of a logsumexp; and its logarithm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "src/contracts/logsumexp.h"
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

double relative_error(float x) {
    const long double exact = std::log2(static_cast<long double>(x));
    return static_cast<double>(std::fabs((log2_of(x) - exact) / exact));
}

// Every float near 1, where the logarithm is small, and some of every power of two, also denormals.
TEST(Log2, IsWithinTheStatedError) {
    double worst = 0;
    for (uint32_t u = bits_of(1.0f) - (1 << 14); u < bits_of(1.0f) + (1 << 14); ++u)
        if (float_of(u) != 1) worst = std::max(worst, relative_error(float_of(u)));
    for (uint32_t u = bits_of(0.25f); u < bits_of(8.0f); u += 997) worst = std::max(worst, relative_error(float_of(u)));
    for (uint32_t u = 1; u < bits_of(std::numeric_limits<float>::infinity()); u += (1 << 19) - 1)
        worst = std::max(worst, relative_error(float_of(u)));
    std::printf("largest relative error of log2: 2^%.2f\n", std::log2(worst));
    EXPECT_LT(worst, 0x1p-48);
    EXPECT_GT(worst, 0); // the oracle must use other arithmetic
}

TEST(Log2, OfAPowerOfTwoIsItsExponent) {
    for (int e = -149; e <= 127; ++e) EXPECT_EQ(log2_of(std::ldexp(1.0, e)), e);
}

long double exact_logsumexp(const RowStatistics& row, Scale scale, double one) {
    const long double ln2 = std::log(2.0L);
    return ln2 * (row.M + static_cast<long double>(scale.c) * row.origin) +
           std::log(static_cast<long double>(row.l) / one);
}

// The error in units in the last place, plus the allowance where M and log2(l) cancel.
double error_in_units(const RowStatistics& row, Scale scale, double one) {
    const long double exact = exact_logsumexp(row, scale, one);
    const float got = logsumexp(row, scale, one);
    const float unit = std::nextafter(std::fabs(got), HUGE_VALF) - std::fabs(got);
    const long double error = std::fabs(got - exact) - 0x1p-52L * std::fabs(row.M);
    return static_cast<double>(error / unit);
}

class LogsumexpOfUnit : public testing::TestWithParam<double> {};

TEST_P(LogsumexpOfUnit, IsTheNearestFloatOrNearlySo) {
    std::mt19937 random(1);
    const auto number = [&](double from, double to) {
        return static_cast<float>(std::uniform_real_distribution<double>(from, to)(random));
    };
    const double one = GetParam();
    double worst = 0;
    for (int i = 0; i < 3000; ++i) {
        const Scale scale = scale_for(1 + i % 300);
        const auto l = static_cast<float>(one * std::exp2(number(-20, 90)));
        const float M = std::round(std::ldexp(number(-1, 1), i % 22));
        const float origin = std::ldexp(number(-1, 1) < 0 ? -1.0f : 1.0f, 22 + i % 104) * number(1, 2) * scale.inv_c;
        for (const RowStatistics& row : {RowStatistics{0, 0, l}, RowStatistics{M, 0, l}, RowStatistics{0, origin, l},
                                         RowStatistics{M, 0, static_cast<float>(one * std::exp2(-M) * number(1, 2))}})
            if (row.l > 0 && row.l < HUGE_VALF) worst = std::max(worst, error_in_units(row, scale, one));
    }
    std::printf("largest error: %.6f units in the last place\n", worst);
    EXPECT_LT(worst, 0.5001);
    EXPECT_GT(worst, 0.49);
}

INSTANTIATE_TEST_SUITE_P(Units, LogsumexpOfUnit, testing::Values(1.0, 255.0 * 65536));

TEST(Logsumexp, OfARowThatSeesNoKeyIsMinusInfinity) { EXPECT_EQ(logsumexp({0, 0, 0}, scale_for(64), 1), -HUGE_VALF); }

// The bytes of files depend on these bits.
TEST(Logsumexp, HasTheseBitsForever) {
    const std::pair<RowStatistics, uint32_t> rows[] = {
        {{0, 0, 1.5f}, 0x3ecf991f},         {{0, 0, 1000.7f}, 0x40dd1210},
        {{17, 0, 3.1f}, 0x414ea373},        {{-400, 0, 0.9f}, 0xc38aae9f},
        {{0, 0x1.3p60f, 5.5f}, 0x5c53adae}, {{-8, 0, 0x1.000002p8f}, 0x33ffffff}, // nearly 0
        {{5, 0, 0x1p-149f}, 0xc2c7a05b}};
    for (const auto& [row, bits] : rows) EXPECT_EQ(bits_of(logsumexp(row, scale_for(33), 1)), bits) << row.l;
}

} // namespace
} // namespace hw4
