// The functions of the contract "fixed", one by one. Its results against float64: fixed_accuracy_test.cpp.
#include "src/contracts/fixed/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "src/contracts/contract.h"
#include "src/contracts/fixed/rules.h"

namespace hw4::fixed {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();

double scaled(float x, int exponent) { return std::ldexp(double{x}, exponent); }

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

// combined() in 64 bits, for sums over `count` terms of the same digits.
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

// Compares with the kernels' row-at-a-time functions, for all key magnitudes that limit a row's exponent under fixed16.
template <class Rules>
void expect_scaled_at_once() {
    std::mt19937 random(20261115);
    int rows_at_once = 0;
    for (int row = 0; row < 40000; ++row) {
        const float c = query_factor(scale_for(1 << row % 9).c);     // up to d = 256
        const int exponent = static_cast<int>(random() % 290) - 160; // denormal to beyond all floats
        std::vector<float> numbers(9);
        float largest = 0;
        for (float& n : numbers) {
            const auto fraction = static_cast<float>(random()) * 0x1p-31f - 1.0f;
            n = within_floats(std::ldexp(fraction, exponent - static_cast<int>(random() % 3 * 12)));
            largest = larger(largest, std::fabs(scaled_query(n, c)));
        }
        const int e = Rules::row_exponent(largest, static_cast<int>(random() % 256) - 114);
        if (!scaled_at_once<Rules::kDigits>(largest, e)) continue;
        ++rows_at_once;
        for (const float n : numbers)
            ASSERT_EQ(nearest(n * factor_at_once(c, e)), quantised(scaled_query(n, c), factors(e)))
                << n << " * " << c << ", exponent " << e;
    }
    EXPECT_GT(rows_at_once, 20000);
}

TEST(FixedDigits, ScaledAtOnceAreTheSame) {
    expect_scaled_at_once<FixedRules>();
    expect_scaled_at_once<Fixed16Rules>();
}

// All magnitudes, also the largest float: its product with 21/16 overflows.
TEST(FixedDigits, OfATileAreWidened) {
    std::mt19937 random(4);
    for (int i = 0; i < 200000; ++i) {
        const float largest = i == 0 ? kLargestFloat : float_of(static_cast<uint32_t>(random()) % 0x7f800000u);
        const int e = tile_exponent(largest);
        const int32_t n = quantised(largest, tile_factors(e));
        ASSERT_LE(n, kLargest) << largest;
        ASSERT_TRUE(n >= kLargest / 2 || e >= 148) << largest;
        ASSERT_NEAR(n, scaled(largest, e) * 21 / 16, 0.5 + scaled(largest, e) * 0x1p-23) << largest;
        const float x = float_of(static_cast<uint32_t>(random()) % (bits_of(largest) + 1));
        ASSERT_LE(quantised(x, tile_factors(e)), n) << x << " of " << largest;
    }
    EXPECT_EQ(quantised(0.0f, tile_factors(tile_exponent(0.0f))), 0);
    // A denormal times 21/16 must not be rounded to a denormal in between.
    EXPECT_EQ(tile_exponent(float_of(798917)), 149);
    EXPECT_EQ(quantised(float_of(798917), tile_factors(149)), 1048578); // from 1048578.5625, twice to even
    EXPECT_EQ(quantised(float_of(6400000), tile_factors(148)), 4200000);
    EXPECT_EQ(kWiden, 21.0f / 16);
    EXPECT_EQ(kNarrow, 16.0f / 21);
    for (int e = -125; e <= 130; ++e)
        EXPECT_EQ(double{result_factors(e).first} * double{result_factors(e).second}, std::ldexp(double{kNarrow}, e));
}

// Sums are largest where all digits are at the same limit. The digits of a weight are bytes.
TEST(FixedDigits, NoSumOverflows) {
    int64_t largest_score = 0;
    int64_t largest_value = 0;
    for (int ends = 0; ends < 64; ++ends) {
        const auto lower = [&](int bit) { return ends >> bit & 1 ? int64_t{127} : int64_t{-128}; };
        for (const int64_t sign : {-127, 127}) {
            const int64_t b[3] = {lower(0), lower(1), lower(2) < 0 ? int64_t{-127} : int64_t{127}};
            const int64_t q[3] = {lower(3), lower(4), sign};
            const auto byte = [&](int bit) { return lower(bit) < 0 ? int64_t{0} : int64_t{255}; };
            const int64_t p[3] = {byte(3), byte(4), byte(5)};
            largest_score = std::max(largest_score, std::abs(combined_exactly(kMostColumns, q, b)));
            largest_value = std::max(largest_value, std::abs(combined_exactly(kTileKeys, p, b)));
        }
    }
    EXPECT_GT(largest_score, int64_t{1} << 29); // 256 columns are about as many as fit
    EXPECT_LT(largest_score, int64_t{1} << 30);
    EXPECT_LT(largest_value, int64_t{1} << 29);
}

double score_of(int32_t x, Unit unit) { return std::ldexp(static_cast<double>(x), unit.whole - unit.bits); }

// M and a quarter to four: the least value above the score; above an integer, a quarter more.
double top_of(int32_t largest, Unit unit) {
    const double score = score_of(largest, unit);
    return unit.whole > 0 ? score + 0.25 : (std::floor(4 * score) + 1) / 4;
}

constexpr double kWeightError = 1.8e-7; // the polynomial's; its argument is exact

void expect_weight(int32_t x, int32_t largest, Unit unit) {
    const double exact = std::ldexp(double{kKappa}, 25) * std::exp2(score_of(x, unit) - top_of(largest, unit));
    const int32_t weight = weight_of(x, tile_top(largest, unit), unit);
    ASSERT_LT(weight, 1 << 24) << x << " of " << largest << ", bits " << unit.bits << ", whole " << unit.whole;
    ASSERT_NEAR(weight, exact, 0.51 + exact * (kWeightError + 0x1p-24))
        << x << " of " << largest << ", bits " << unit.bits << ", whole " << unit.whole;
}

TEST(FixedWeight, IsThePowerOfTwoWithinTheStatedError) {
    for (int bits = 0; bits <= kMostBits; ++bits)
        for (const int32_t largest : {0, 1, 12345, 1 << 20, -(1 << 20), 7654321, (1 << 30) - 1, -(1 << 30)}) {
            // Down to 2^-45, evenly, and the largest score itself.
            const double depth = std::ldexp(45.0, bits);
            for (int i = 0; i <= 1000; ++i) {
                const double x = static_cast<double>(largest) - depth * i / 1000;
                if (x < -0x1p31) break;
                expect_weight(static_cast<int32_t>(std::floor(x)), largest, {0, bits, 0});
            }
        }
}

TEST(FixedWeight, OfWholeScoresIsThatOfTheirDifference) {
    for (int whole = 1; whole <= 127; ++whole)
        for (const int32_t largest : {0, 3, -3, (1 << 21) + 1, 1 << 30, -(1 << 30)}) {
            const Unit unit = {0, 0, whole};
            const TileTop top = tile_top(largest, unit);
            EXPECT_EQ(top.quarters, 1);
            EXPECT_EQ(tile_reference(top, unit), std::ldexp(static_cast<float>(largest), whole));
            for (int32_t below = 0; below < 45; ++below) {
                const double exact =
                    std::ldexp(double{kKappa}, 25) * std::exp2(-0.25 - std::ldexp(static_cast<double>(below), whole));
                ASSERT_NEAR(weight_of(largest - below, top, unit), exact, 0.51 + exact * 2 * kWeightError);
            }
        }
}

// A sum that rounds in each step reveals the order: the lanes are added in pairs, not one after another.
TEST(FixedSums, OfARowAreAddedInTwosAndTwos) {
    EXPECT_EQ(sum_of_lanes({0x1p24f, 1.0f, 1.0f, 1.0f}), 0x1p24f + 2.0f);
    EXPECT_EQ(sum_of_lanes({1.0f, 0x1p24f, 1.0f, 1.0f}), 0x1p24f + 2.0f);
    EXPECT_EQ(sum_of_lanes({1.0f, 1.0f, 0x1p24f, 1.0f}), 0x1p24f + 2.0f);
    for (int key = 0; key < kTileKeys; ++key) EXPECT_EQ(lane_of(key), key % 8 / 2) << key;
}

// Every float that can be the argument of the polynomial, at the largest power.
TEST(FixedWeight, StaysBelowTwoToThe24) {
    double worst = 0;
    for (uint32_t fraction = 0; fraction <= 0x800000; ++fraction) {
        const float g = float_of(0x3f800000u + fraction);
        const float y = kappa_exp2(g);
        const double exact = double{kKappa} * std::exp2(double{g} - 1);
        worst = std::max(worst, std::fabs(double{y} - exact) / exact);
        ASSERT_LT(y * 0x1p24f, 0x1p24f) << g;
    }
    EXPECT_LT(worst, kWeightError);
}

// All other code, kernels included, takes its constants from the contract; these bits are independent of it. The first
// two of the polynomial change with the last bit of any of its coefficients.
TEST(FixedWeight, HasTheseBitsForever) {
    const std::pair<float, uint32_t> fractions[] = {
        {0x1.5876acp+0f, 0x3f2201d8}, {0x1.f05bbap+0f, 0x3f746d07}, {0x1p+0f, 0x3efefffe},
        {0x1.000002p+0f, 0x3eff0000}, {0x1.0624dep+0f, 0x3f01a387}, {0x1.1p+0f, 0x3f052519},
        {0x1.2p+0f, 0x3f0b0a2c},      {0x1.333334p+0f, 0x3f127583}, {0x1.4p+0f, 0x3f179fb8},
        {0x1.555556p+0f, 0x3f20a3d3}, {0x1.6p+0f, 0x3f2558d8},      {0x1.8p+0f, 0x3f344fef},
        {0x1.99999ap+0f, 0x3f4140fd}, {0x1.c71c72p+0f, 0x3f5a98e3}, {0x1.ep+0f, 0x3f69d607},
        {0x1.fffffep+0f, 0x3f7efffe}};
    for (const auto& [g, bits] : fractions) EXPECT_EQ(bits_of(kappa_exp2(g)), bits) << g;
    const std::pair<int32_t, int32_t> scores[] = {{0, 14052791},       {-1, 14052790},      {-12345, 14038464},
                                                  {-4194304, 9936824}, {-8388608, 7026396}, {-41943117, 439147},
                                                  {-167772163, 13},    {-209715101, 0},     {-218103808, 0}};
    const Unit unit = {0, 23, 0};
    for (const auto& [x, weight] : scores) EXPECT_EQ(weight_of(x, tile_top(0, unit), unit), weight) << x;
    const uint32_t quarters[] = {0x3f9837f0, 0x3fb504f3, 0x3fd744fd, 0x40000000};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(bits_of(quarter_power(i + 1)), quarters[i]) << i;
}

TEST(FixedScale, HasTheseBitsForever) {
    const std::pair<int, uint32_t> factors_of_q[] = {
        {1, 0x3f8cb276},  {2, 0x3f46f9cc},  {7, 0x3ed4b6cc},  {13, 0x3e9c16e6},  {16, 0x3e8cb276}, {32, 0x3e46f9cc},
        {33, 0x3e43f014}, {60, 0x3e114fb6}, {64, 0x3e0cb276}, {128, 0x3dc6f9cc}, {256, 0x3d8cb276}};
    for (const auto& [d, bits] : factors_of_q) EXPECT_EQ(bits_of(query_factor(scale_for(d).c)), bits) << d;
}

// No output shows it, as both sides are the same numbers times a power of two; but kernels that join sums rely on it.
TEST(FixedReference, IsRaisedByMoreThanThirty) {
    for (const float reference : {0.0f, -40.0f, 1e6f}) {
        EXPECT_FALSE(raises(reference + 30.0f, reference));
        EXPECT_TRUE(raises(reference + 31.0f, reference));
    }
    EXPECT_TRUE(raises(-1e30f, -HUGE_VALF));
}

// Kernels combine the two in this way: y's exponent plus that of the bits, minus that of g.
TEST(FixedWeight, IsTheSameByAddingExponents) {
    for (uint32_t field = 5; field <= 151; ++field)
        for (uint32_t fraction = 0; fraction <= 0x7fffff; fraction += 4999) {
            const uint32_t bits = (field << 23) + fraction;
            const float g = with_fraction_of(bits);
            const float added = float_of(bits_of(kappa_exp2(g)) + bits - bits_of(g));
            ASSERT_EQ(bits_of(added), bits_of(weight_value(g, with_exponent_of(bits)))) << field << ", " << fraction;
        }
}

// An allowed deviation: with the power of two down to 2^-140, P is the same as without powers below 2^-26.
TEST(FixedWeight, IsNothingBelowTwoToTheMinus26HoweverItIsTaken) {
    const Unit unit = {0, 12, 0};
    const TileTop top = tile_top(0, unit);
    bool deep = false;
    for (int32_t x = 0; x > -(140 << 12); x -= 7) {
        const int32_t unclamped = weight_of_power(power_bits(x, unit, bits_at(top)));
        ASSERT_EQ(weight_of(x, top, unit), unclamped) << x;
        if (x < kDeepest * (1 << 12)) {
            ASSERT_EQ(unclamped, 0) << x;
            deep = true;
        }
    }
    EXPECT_TRUE(deep);
    for (int whole = 1; whole <= 127; ++whole) {
        EXPECT_EQ(weight_of(-64, tile_top(0, {0, 0, whole}), {0, 0, whole}), 0);
        EXPECT_EQ(weight_of(std::numeric_limits<int32_t>::min() / 2, tile_top(1 << 30, {0, 0, whole}), {0, 0, whole}),
                  0);
    }
}

// Kernels use integers where they can.
TEST(FixedWeight, OfATileIsThatOfAFloatOrOfAnInteger) {
    for (int k = -(1 << 24); k <= -1000; k += 997)
        ASSERT_EQ(bits_of(weight_of_tile(k)), bits_of(weight_of_tile(static_cast<float>(k)))) << k;
    for (int k = -1000; k <= 100; ++k) {
        ASSERT_EQ(bits_of(weight_of_tile(k)), bits_of(weight_of_tile(static_cast<float>(k)))) << k;
        ASSERT_EQ(double{weight_of_tile(k)}, k < -126 ? 0.0 : std::ldexp(1.0, k)) << k;
    }
}

TEST(FixedScale, IsNeverInfinite) {
    constexpr float kMost = std::numeric_limits<float>::max();
    const float factor = query_factor(scale_for(1).c);
    EXPECT_GT(factor, 1.0f);
    EXPECT_EQ(scaled_query(kMost, factor), kMost);
    EXPECT_EQ(scaled_query(-kMost, factor), -kMost);
    EXPECT_LT(query_factor(scale_for(2).c), 1.0f);
    EXPECT_EQ(scaled_query(3.0f, 0.25f), 0.75f);
    EXPECT_EQ(scaled_query(-3.0f, 0.25f), -0.75f);
    EXPECT_LE(quantised(kMost, factors(exponent_for(kMost))), kLargest);
    // The key with the largest score has all the weight.
    const float q[] = {kMost, -kMost, kMost};
    const float k[] = {0.125f, -0.125f, 0.0625f};
    const float v[] = {1.0f, 2.0f, 3.0f};
    float out[3] = {};
    fixed_forward({3, 3, 1, {q, k, v}, {out}});
    EXPECT_NEAR(out[0], 1.0f, 1e-6f);
    EXPECT_NEAR(out[1], 2.0f, 1e-6f);
    EXPECT_NEAR(out[2], 1.0f, 1e-6f);
}

} // namespace
} // namespace hw4::fixed
