// The references of the contracts "fixed" and "fixed16" against float64: within the bounds that
// report/contracts.md derives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "src/contracts/fixed/rules.h"
#include "tests/support/attention_case.h"

namespace hw4::fixed {
namespace {

// One row by the definition, and the contract's largest allowed error.
struct ExactRow {
    std::vector<double> o;
    double tolerance = 0;
};

// The largest losses of a contract's steps; the report has the reasons.
struct Losses {
    const Contract* contract;
    int tile_keys;
    int32_t largest;     // integer
    double score_column; // error in units of the score, per column and one more
    double score_unit;   // the score's unit for numbers up to 1
    double least_unit;   // the least value of that unit
    double cut;          // cut off from scores
    double weight;       // relative
    double values;       // relative to a tile's largest value and its largest weight
    double sums;         // relative to the largest value and the sum of weights
    double ordinary;     // the largest error on ordinary data
    double constant;     // relative, for equal values
};

const Losses kLosses[] = {
    {&kFixed, kTileKeys, kLargest, 1.25, 0x1.13p-20, 0, 0x1p-23, 4e-7, 0x1p-14, 0x1p-17, 6e-6, 0x1p-20},
    {&kFixed16, fixed16::kTileKeys, fixed16::Numbers::kLargest, 0.76, 0x1.08p-12, 0x1p-12, 0x1p-12, 6e-7, 0x1.52p-7,
     0x1p-10, 2e-3, 0x1p-14},
};

float largest_in(const float* x, int64_t count) {
    float largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
    return largest;
}

// The tolerance is the bound of the report, summed by key and by tile.
ExactRow exact_row(const Losses& losses, const float* q, const float* k, const float* v, int64_t n, int64_t d) {
    const auto magnitude_in = [](const float* x, int64_t count) { return std::max(largest_in(x, count), 0x1p-127f); };
    const double c = std::log2(std::exp(1.0)) / std::sqrt(static_cast<double>(d));
    const double q_magnitude = double{magnitude_in(q, d)} * std::min(c, 2.0);
    const double v_magnitude = magnitude_in(v, n * d);
    std::vector<double> exponents(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) {
        double score = 0;
        for (int64_t t = 0; t < d; ++t) score += double{q[t]} * double{k[j * d + t]};
        exponents[static_cast<size_t>(j)] = c * score;
    }
    const double top = *std::max_element(exponents.begin(), exponents.end());
    ExactRow row;
    row.o.resize(static_cast<size_t>(d));
    double sum = 0;         // of weights
    double off_weights = 0; // each weight times its own relative error
    double off_values = 0;
    for (int64_t tile = 0; tile < n; tile += losses.tile_keys) {
        const int64_t keys = std::min<int64_t>(losses.tile_keys, n - tile);
        const double unit =
            std::max(losses.score_unit * std::max(q_magnitude, 0x1p-126) * double{magnitude_in(k + tile * d, keys * d)},
                     losses.least_unit);
        double most = 0; // among the tile's weights
        for (int64_t j = tile; j < tile + keys; ++j) {
            const double score = exponents[static_cast<size_t>(j)];
            const double s =
                (losses.score_column * static_cast<double>(d) + 1) * unit + losses.cut + std::fabs(score) * 0x1p-22;
            const double p = std::exp2(score - top);
            sum += p;
            off_weights += p * std::min(std::exp2(s) - 1 + losses.weight, 1.0);
            most = std::max(most, p);
            for (int64_t x = 0; x < d; ++x) row.o[static_cast<size_t>(x)] += p * double{v[j * d + x]};
        }
        off_values += most * (losses.values * double{magnitude_in(v + tile * d, keys * d)} + losses.sums * v_magnitude);
    }
    for (double& x : row.o) x /= sum;

    const double e = off_weights / sum;
    const double by_weights = e < 0.5 ? 2 * e / (1 - e) : 2.0;
    const int64_t tiles = (n + losses.tile_keys - 1) / losses.tile_keys;
    row.tolerance = v_magnitude * (by_weights + static_cast<double>(tiles + 4) * 0x1p-22) + off_values / sum + 0x1p-147;
    return row;
}

struct Errors {
    double largest = 0;      // |O - exact|
    double of_tolerance = 0; // the same, relative to the tolerance
};

Errors errors_of(const Losses& losses, const AttentionCase& test, int64_t row_step) {
    Errors errors;
    const int64_t n = test.problem.queries;
    const int64_t d = test.problem.dim;
    for (int64_t b = 0; b < test.problem.batches; ++b)
        for (int64_t row = 0; row < n; row += row_step) {
            const float* q = test.qkv.data() + static_cast<size_t>(b) * test.problem.batch_input_floats();
            const ExactRow exact = exact_row(losses, q + row * d, q + n * d, q + 2 * n * d, n, d);
            const float* out = test.expected.data() + (b * n + row) * d;
            for (int64_t x = 0; x < d; ++x) {
                const double error = std::fabs(double{out[x]} - exact.o[static_cast<size_t>(x)]);
                if (!(error <= std::numeric_limits<double>::max())) return {HUGE_VAL, HUGE_VAL};
                errors.largest = std::max(errors.largest, error);
                errors.of_tolerance = std::max(errors.of_tolerance, error / exact.tolerance);
            }
        }
    return errors;
}

class FixedAccuracy : public testing::TestWithParam<Losses> {
protected:
    static const Contract& contract() { return *GetParam().contract; }
    static Errors errors_of(const AttentionCase& test, int64_t row_step) {
        return fixed::errors_of(GetParam(), test, row_step);
    }
};

TEST_P(FixedAccuracy, IsWithinTheToleranceForEveryKindOfData) {
    for (const Problem& problem : {Problem{1, 1, 1}, Problem{2, 63, 7}, Problem{1, 64, 33}, Problem{2, 65, 64},
                                   Problem{1, 300, 128}, Problem{1, 200, 256}, Problem{1, 1000, 5}})
        for (const CaseKind kind : kAllKinds) {
            const AttentionCase test(problem, kind, 17, contract());
            EXPECT_LE(errors_of(test, problem.queries > 100 ? 7 : 1).of_tolerance, 1.0) << test.name;
        }
}

// Heavy tails, one huge number among small ones, magnitudes from 2^-20 to 2^20.
TEST_P(FixedAccuracy, IsWithinTheToleranceHoweverMagnitudesAreMixed) {
    std::mt19937 random(29);
    std::student_t_distribution<float> heavy(2.0f);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-20, 20);
    const auto fill_each = [](auto draw) {
        return [draw](float* qkv, int64_t) mutable {
            for (size_t i = 0; i < size_t{3} * 150 * 48; ++i) qkv[i] = draw(i);
        };
    };
    const auto expect = [](const char* what, const auto& fill) {
        const AttentionCase test = AttentionCase::filled({1, 150, 48}, what, fill, contract());
        EXPECT_LE(errors_of(test, 3).of_tolerance, 1.0) << test.name;
    };
    expect("Student's t", fill_each([&](size_t) { return heavy(random); }));
    expect("outliers", fill_each([&](size_t i) { return normal(random) * (i % 500 == 0 ? 20.0f : 1.0f); }));
    expect("a larger key", fill_each([&](size_t i) { return normal(random) * (i == 7203 ? 100.0f : 1.0f); }));
    expect("a huge key", fill_each([&](size_t i) { return normal(random) * (i == 7203 ? 1e6f : 1.0f); }));
    expect("a huge value", fill_each([&](size_t i) { return normal(random) * (i == 14405 ? 1e6f : 1.0f); }));
    expect("powers of two",
           fill_each([&](size_t) { return std::ldexp(normal(random) < 0 ? -1.0f : 1.0f, exponent(random)); }));
}

// Every digit of Q, K and V at its limit, in as many columns as possible. The sanitizers see an overflow here.
TEST_P(FixedAccuracy, TakesTheLargestNumbersInTheMostColumns) {
    const float factor = query_factor(scale_for(kMostColumns).c);
    const auto largest = static_cast<float>(GetParam().largest);
    const float q = largest / factor;
    ASSERT_EQ(quantised(q * factor, factors(0)), GetParam().largest);
    const float most = largest / kWiden;
    ASSERT_EQ(quantised(most, tile_factors(0)), GetParam().largest);
    for (const float sign : {1.0f, -1.0f})
        for (const float scale : {1.0f, 0x1p-30f, 0x1p-60f}) { // scores are whole, have fractions, are cut
            const auto fill = [&](float* qkv, int64_t) {
                const size_t matrix = size_t{70} * kMostColumns;
                std::fill(qkv, qkv + matrix, q);
                std::fill(qkv + matrix, qkv + 2 * matrix, sign * scale * most);
                std::fill(qkv + 2 * matrix, qkv + 3 * matrix, most);
            };
            const AttentionCase test = AttentionCase::filled({1, 70, kMostColumns}, "largest", fill, contract());
            for (const float x : test.expected) ASSERT_NEAR(x, most, GetParam().constant * double{most});
        }
}

INSTANTIATE_TEST_SUITE_P(Contracts, FixedAccuracy, testing::ValuesIn(kLosses),
                         [](const auto& instance) { return std::string(instance.param.contract->name); });

} // namespace
} // namespace hw4::fixed
