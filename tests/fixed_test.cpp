// The contract "fixed": its functions one by one, then its reference against float64.
#include "../src/fixed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "attention_case.h"

namespace hw4::fixed {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();
constexpr float kLeastNormal = std::numeric_limits<float>::min();

double scaled(float x, int exponent) { return std::ldexp(double{x}, exponent); }

// ---- Numbers and digits

TEST(FixedExponent, IsTheLargestThatKeepsTheGroupWithinThreeDigits) {
    for (uint32_t exponent = 1; exponent < 255; ++exponent)
        for (const uint32_t mantissa : {0u, 1u, 0x400000u, 0x7efefdu, 0x7efefeu, 0x7efeffu, 0x7eff00u, 0x7fffffu}) {
            const float largest = float_of(exponent << 23 | mantissa);
            const int e = exponent_for(largest);
            EXPECT_LE(scaled(largest, e), kLargest) << largest;
            EXPECT_GT(scaled(largest, e + 1), kLargest) << largest;
            EXPECT_LE(quantised(largest, factors(e)), kLargest) << largest;
            EXPECT_EQ(quantised(-largest, factors(e)), -quantised(largest, factors(e))) << largest;
        }
}

TEST(FixedExponent, TurnsOverAtTheLargestBalancedNumber) {
    const auto twice = [](int32_t n) { return std::ldexp(static_cast<float>(n), -1); };
    EXPECT_EQ(exponent_for(twice(2 * kLargest)), 0);      // is 0x7f7f7f itself
    EXPECT_EQ(exponent_for(twice(2 * kLargest + 1)), -1); // would be rounded up, beyond it
    EXPECT_EQ(exponent_for(twice(kLargest)), 1);
    EXPECT_EQ(quantised(twice(2 * kLargest), factors(0)), kLargest);
}

TEST(FixedExponent, HasTheStatedRange) {
    EXPECT_EQ(exponent_for(0.0f), 149);
    EXPECT_EQ(exponent_for(float_of(1)), 149);
    EXPECT_EQ(exponent_for(kLargestFloat), -106);
    EXPECT_EQ(quantised(0.0f, factors(149)), 0);
    EXPECT_EQ(quantised(-0.0f, factors(149)), 0);
    for (uint32_t u = 0; u < bits_of(kLeastNormal); u += 4099) { // denormals stay what they are, or lose their last bit
        const int e = exponent_for(float_of(u));
        ASSERT_TRUE(e == 149 || (e == 148 && u > 0x7efefe)) << u;
        const auto whole = static_cast<double>(u);
        ASSERT_EQ(quantised(float_of(u), factors(e)), std::nearbyint(e == 149 ? whole : whole / 2));
    }
}

TEST(FixedFactors, AreThePowerOfTwoWithoutLoss) {
    for (int e = -125; e <= 149; ++e) {
        const Factors both = factors(e);
        EXPECT_EQ(double{both.first} * double{both.second}, std::ldexp(1.0, e)) << e;
    }
}

TEST(FixedNumbers, AreRoundedToNearestEven) {
    std::mt19937 random(3);
    for (int i = 0; i < 200000; ++i) {
        const float largest = float_of(static_cast<uint32_t>(random()) % 0x7f800000u);
        const int e = exponent_for(largest);
        const float x = float_of(static_cast<uint32_t>(random()) % (bits_of(largest) + 1));
        ASSERT_EQ(quantised(x, factors(e)), std::nearbyint(scaled(x, e))) << x << " of " << largest;
    }
    const Factors whole = factors(0);
    EXPECT_EQ(quantised(0.5f, whole), 0);
    EXPECT_EQ(quantised(1.5f, whole), 2);
    EXPECT_EQ(quantised(-2.5f, whole), -2);
}

TEST(FixedDigits, MakeUpEveryNumber) {
    int wrong = 0; // counted, since so many expectations would take the sanitizers minutes
    for (int32_t n = -kLargest; n <= kLargest; ++n) {
        const uint32_t bytes = digit_bytes(n);
        const bool same = digit(bytes, 2) * 65536 + digit(bytes, 1) * 256 + digit(bytes, 0) == n;
        wrong += !same || bytes >> 24 != 0; // nothing is left over
    }
    EXPECT_EQ(wrong, 0);
}

// combined() of sums over `count` terms of the same digits, in 64 bits.
int64_t combined_exactly(int64_t count, const int64_t a[3], const int64_t b[3]) {
    const int64_t l0 = count * a[2] * b[2];
    const int64_t l1 = count * (a[2] * b[1] + a[1] * b[2]);
    const int64_t l2 = count * (a[2] * b[0] + a[1] * b[1] + a[0] * b[2]);
    for (const int64_t sum : {l0 * 256, l1, l2})
        EXPECT_LT(std::abs(sum), int64_t{1} << 31) << a[2] << " " << a[1] << " " << a[0];
    const int64_t whole = l0 * 256 + l1 + (l2 >> 8);
    EXPECT_EQ(combined(static_cast<int32_t>(l0), static_cast<int32_t>(l1), static_cast<int32_t>(l2)), whole);
    return whole;
}

// The largest sums are those of digits that are all at one of their ends. The highest digit of a weight is a byte.
TEST(FixedDigits, NoSumOverflows) {
    int64_t largest_score = 0;
    int64_t largest_value = 0;
    for (int ends = 0; ends < 64; ++ends) {
        const auto lower = [&](int bit) { return ends >> bit & 1 ? int64_t{127} : int64_t{-128}; };
        for (const int64_t sign : {-127, 127}) {
            const int64_t b[3] = {lower(0), lower(1), lower(2) < 0 ? int64_t{-127} : int64_t{127}};
            const int64_t q[3] = {lower(3), lower(4), sign};
            const int64_t p[3] = {lower(3), lower(4), lower(5) < 0 ? int64_t{0} : int64_t{255}};
            largest_score = std::max(largest_score, std::abs(combined_exactly(kMostColumns, q, b)));
            largest_value = std::max(largest_value, std::abs(combined_exactly(kTileKeys, p, b)));
        }
    }
    EXPECT_GT(largest_score, int64_t{1} << 29); // 256 columns are about as many as fit
    EXPECT_LT(largest_score, int64_t{1} << 31);
    EXPECT_LT(largest_value, int64_t{1} << 31);
}

// ---- Weights

double exact_weight(int32_t x, const TileReference& reference, float scale) {
    const double s = double{static_cast<float>(x - reference.origin)};
    const double M = double{kPowerBias} - double{reference.bias};
    return std::ldexp(double{kKappa}, 24) * std::exp2(s * double{scale} - M);
}

// The polynomial is within 1.7e-7, its argument is rounded once, and so are its product with the power and W.
constexpr double kWeightError = 2.5e-7;

void expect_weight(int32_t x, const TileReference& reference, float scale) {
    const double exact = exact_weight(x, reference, scale);
    const uint32_t word = weight_word(x, reference, scale);
    ASSERT_LT(word, 1u << 24) << x << ", scale " << scale;
    ASSERT_NEAR(static_cast<double>(word) - kMiddle, exact, 1.0 + exact * kWeightError) << x << ", scale " << scale;
}

TEST(FixedWeight, IsThePowerOfTwoWithinTheStatedError) {
    for (const float scale : {0x1p-24f, 0x1.71547p-20f, 0x1.9p-16f, 0x1.3p-10f, 1.0f, 0x1p6f})
        for (const int32_t largest : {0, 1, 12345, 1 << 20, -(1 << 20), (1 << 30) - 1, -(1 << 30)}) {
            const TileReference reference = tile_reference(largest, scale);
            // Down to 2^-45, evenly, and the largest itself.
            const double depth = std::min(45.0 / double{scale}, double{1 << 30});
            for (int i = 0; i <= 2000; ++i) {
                const double x = static_cast<double>(largest) - depth * i / 2000;
                if (x < -0x1p31) break;
                expect_weight(static_cast<int32_t>(std::floor(x)), reference, scale);
            }
        }
}

// Every float that can be the argument of the polynomial in a step of 2^-22, at the largest power there is.
TEST(FixedWeight, StaysBelowTwoToThe24) {
    double worst = 0;
    float largest = 0;
    for (int32_t i = -(1 << 21); i <= 1 << 21; ++i) {
        const float r = static_cast<float>(i) * 0x1p-22f;
        const float y = kappa_exp2(r);
        const double exact = double{kKappa} * std::exp2(double{r});
        worst = std::max(worst, std::fabs(double{y} - exact) / exact);
        largest = std::max(largest, fused(y, 0x1p24f, static_cast<float>(kMiddle)));
    }
    EXPECT_LT(worst, 1.7e-7);
    EXPECT_LT(largest, 0x1p24f);
    EXPECT_EQ(kappa_exp2(0.0f), kKappa);
}

// What may be done otherwise: with the power of two down to 2^-140 the word is the same as with the clamp at 2^-40.
TEST(FixedWeight, IsNothingBelowTwoToTheMinus40HoweverItIsTaken) {
    const float scale = 0x1p-12f;
    const TileReference reference = tile_reference(0, scale);
    bool clamped = false;
    for (int32_t x = 0; x > -(140 << 12); x -= 7) {
        const auto s = static_cast<float>(x);
        const auto unclamped = static_cast<uint32_t>(nearest(weight_value(s, scale, reference.bias)));
        ASSERT_EQ(weight_word(x, reference, scale), unclamped) << x;
        if (s * scale < kShallowest - 0.5f) {
            ASSERT_EQ(unclamped, kMiddle) << x;
            clamped = true;
        }
    }
    EXPECT_TRUE(clamped);
    EXPECT_EQ(weight_word(std::numeric_limits<int32_t>::min() / 2, reference, 0x1p90f), kMiddle);
}

TEST(FixedWeight, OfTheLargestScoreIsAtLeastHalf) {
    for (const float scale : {0x1p-20f, 0x1.23456p-7f, 0.37f})
        for (int32_t x = -5000000; x < 5000000; x += 9973) {
            const TileReference reference = tile_reference(x, scale);
            const uint32_t word = weight_word(x, reference, scale);
            ASSERT_GE(word - kMiddle, 0.49 * 0x1p24) << x;
            ASSERT_EQ(reference.M, std::rint(reference.M));
            ASSERT_EQ(reference.origin, 0);
        }
}

TEST(FixedReference, MeasuresFromTheLargestScoreBeyondTwoToThe21) {
    EXPECT_EQ(tile_reference(1 << 21, 1.0f).origin, 0);
    EXPECT_EQ(tile_reference(-(1 << 21), 1.0f).origin, 0);
    for (const int32_t x : {(1 << 21) + 1, -(1 << 21) - 1, 1 << 30, -(1 << 30)}) {
        const TileReference reference = tile_reference(x, 1.0f);
        EXPECT_EQ(reference.origin, x);
        EXPECT_EQ(reference.bias, kPowerBias);
        EXPECT_EQ(reference.M, static_cast<float>(x));
        EXPECT_EQ(weight_word(x, reference, 1.0f), kMiddle + static_cast<uint32_t>(kKappa * 0x1p24f));
        for (int32_t below = 0; below < 45; ++below) expect_weight(x - below, reference, 1.0f);
    }
}

TEST(FixedScale, IsTheHeadSizesTimesTheGroups) {
    EXPECT_EQ(score_scale(1.25f, 10, 20), 1.25f * 0x1p-6f);
    EXPECT_EQ(score_scale(1.25f, -40, -50), 1.25f * 0x1p114f);
    EXPECT_EQ(score_scale(1.25f, 149, 149), 1.25f * 0x1p-100f); // no score is as large as to be seen there
}

// ---- The reference against float64

// One row by the definition, and how far from it the contract's may be.
struct ExactRow {
    std::vector<double> o;
    double tolerance = 0;
};

float largest_in(const float* x, int64_t count) {
    float largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
    return largest;
}

// The tolerance, worst case upon worst case:
// - A score x, in its units, loses up to 1 a column (the numbers' own roundings 1/4 each, the digits left out 1/2) and
// 1
//   when it is combined; as a float, and in its product with c', 2^-23 of it. Where weights are taken from differences,
//   M is rounded by another half. All of that times c' is the error of an exponent, and a relative one of the weight.
// - Weights off by a factor of 1 + e move a mean by at most 2e/(1-e) of the largest value.
// - A tile's sum of values is off by up to 97 units (1.5 a key, 1 when combined), where its largest weight is at least
//   0.49 * 2^24: 200 * 2^-ev of the result. Its sum of weights likewise, by a 2^17th.
// - The sums over tiles and the result are rounded: 2^-23 for each tile above and below, and a few times.
// - What is a denormal has lost what a denormal loses.
ExactRow exact_row(const float* q, const float* k, const float* v, int64_t n, int64_t d) {
    const double c = std::log2(std::exp(1.0)) / std::sqrt(static_cast<double>(d));
    std::vector<double> exponents(static_cast<size_t>(n));
    double off = 0;
    int unit = 0; // of the tile's scores, as a power of two
    for (int64_t j = 0; j < n; ++j) {
        double score = 0;
        for (int64_t t = 0; t < d; ++t) score += double{q[t]} * double{k[j * d + t]};
        if (j % kTileKeys == 0) {
            const int64_t keys = std::min<int64_t>(kTileKeys, n - j);
            unit = 24 - exponent_for(largest_in(q, d)) - exponent_for(largest_in(k + j * d, keys * d));
        }
        exponents[static_cast<size_t>(j)] = c * score;
        const double stray = std::fabs(c * score) > 0x1p20 ? 0.5 : 0.0;
        off = std::max(off,
                       c * (static_cast<double>(d + 1) * std::ldexp(1.0, unit) + std::fabs(score) * 0x1p-22) + stray);
    }
    const double top = *std::max_element(exponents.begin(), exponents.end());
    ExactRow row;
    row.o.resize(static_cast<size_t>(d));
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) {
        const double p = std::exp2(exponents[static_cast<size_t>(j)] - top);
        sum += p;
        for (int64_t x = 0; x < d; ++x) row.o[static_cast<size_t>(x)] += p * double{v[j * d + x]};
    }
    for (double& x : row.o) x /= sum;

    const float largest = largest_in(v, n * d);
    const double e = std::exp2(off) * (1 + 2 * kWeightError) - 1;
    const double by_weights = e < 0.5 ? 2 * e / (1 - e) : 2.0;
    const double tiles = static_cast<double>((n + kTileKeys - 1) / kTileKeys);
    row.tolerance = double{largest} * (by_weights + 0x1p-17 + (tiles + 4) * 0x1p-22) +
                    200 * std::ldexp(1.0, -exponent_for(largest)) + 0x1p-147;
    return row;
}

struct Errors {
    double largest = 0;      // |O - exact|
    double of_tolerance = 0; // the same, over what is allowed
};

Errors errors_of(const AttentionCase& test, int64_t row_step) {
    Errors errors;
    const int64_t n = test.shape.tokens;
    const int64_t d = test.shape.dim;
    for (int64_t b = 0; b < test.shape.batches; ++b)
        for (int64_t row = 0; row < n; row += row_step) {
            const float* q = test.qkv.data() + static_cast<size_t>(b) * test.shape.batch_input_floats();
            const ExactRow exact = exact_row(q + row * d, q + n * d, q + 2 * n * d, n, d);
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

TEST(FixedAccuracy, IsWithinTheToleranceForEveryKindOfData) {
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 63, 7}, Shape{1, 64, 33}, Shape{2, 65, 64}, Shape{1, 300, 128},
                               Shape{1, 200, 256}, Shape{1, 1000, 5}})
        for (const CaseKind kind : kAllKinds) {
            const AttentionCase test(shape, kind, 17, Arithmetic::fixed);
            EXPECT_LE(errors_of(test, shape.tokens > 100 ? 7 : 1).of_tolerance, 1.0) << test.name;
        }
}

// Of ordinary data the roundings mostly cancel: values within 3, and as close to them as f32's are.
TEST(FixedAccuracy, IsAsGoodAsFloatsForOrdinaryData) {
    for (const Shape& shape : {Shape{1, 2048, 64}, Shape{2, 512, 32}, Shape{2, 300, 128}}) {
        const AttentionCase test(shape, CaseKind::uniform, 3, Arithmetic::fixed);
        const Errors errors = errors_of(test, shape.tokens / 64);
        EXPECT_LT(errors.largest, 6e-6) << test.name;
        EXPECT_GT(errors.largest, 0) << "the oracle must not be the same arithmetic";
    }
}

// Every digit of Q, K and V at its end, in as many columns as there may be. The sanitizers see an overflow here.
TEST(FixedAccuracy, TakesTheLargestNumbersInTheMostColumns) {
    for (const float sign : {1.0f, -1.0f}) {
        const auto fill = [&](float* qkv, int64_t) {
            const size_t matrix = size_t{70} * kMostColumns;
            std::fill(qkv, qkv + matrix, static_cast<float>(kLargest));
            std::fill(qkv + matrix, qkv + 2 * matrix, sign * static_cast<float>(kLargest));
            std::fill(qkv + 2 * matrix, qkv + 3 * matrix, static_cast<float>(kLargest));
        };
        const AttentionCase test = AttentionCase::filled({1, 70, kMostColumns}, "largest", fill, Arithmetic::fixed);
        for (const float x : test.expected) ASSERT_NEAR(x, static_cast<float>(kLargest), 0x1p-20 * kLargest);
    }
}

} // namespace
} // namespace hw4::fixed
