// The functions of the contract "fixed16", one by one. Its results against float64: fixed_accuracy_test.cpp.
#include "src/contracts/fixed16/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "src/contracts/fixed/rules.h"
#include "src/cpu/fixed/exp2_segments.h"

namespace hw4::fixed16 {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();
constexpr int32_t kLargest = Numbers::kLargest;

double scaled(float x, int exponent) { return std::ldexp(double{x}, exponent); }

TEST(Fixed16Exponent, IsTheLargestThatKeepsTheGroupWithinTwoDigits) {
    for (uint32_t exponent = 1; exponent < 255; ++exponent)
        for (const uint32_t mantissa : {0u, 1u, 0x400000u, 0x7efefeu, 0x7efeffu, 0x7eff00u, 0x7eff01u, 0x7fffffu}) {
            const float largest = float_of(exponent << 23 | mantissa);
            const int e = Numbers::exponent_for(largest);
            EXPECT_LE(fixed::quantised(largest, factors(e)), kLargest) << largest;
            EXPECT_GT(std::nearbyint(scaled(largest, e + 1)), kLargest) << largest;
            EXPECT_EQ(fixed::quantised(-largest, factors(e)), -fixed::quantised(largest, factors(e))) << largest;
        }
}

// In the tile with the largest keys no score has more than 12 bits of fraction.
TEST(Fixed16Exponent, OfARowLeavesNoMoreThanTwelveBitsWhereKIsLargest) {
    for (int k_exponent = -114; k_exponent <= 141; ++k_exponent)
        for (int magnitude = -149; magnitude < 128; ++magnitude) {
            const float largest = std::ldexp(1.0f, magnitude);
            const int e = row_exponent(largest, k_exponent);
            ASSERT_EQ(e, std::min(Numbers::exponent_for(largest), 28 - k_exponent));
            ASSERT_EQ(unit_of(e, k_exponent).cut, 0) << magnitude << ", " << k_exponent;
        }
}

// Tiles with every largest number: these numbers, halves (8 * 21/16 is 10.5), others, and numbers that become zero.
TEST(Fixed16Digits, AreInTheSumThatRounds) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> part(-1.0f, 1.0f);
    for (int magnitude = -149; magnitude < 128; ++magnitude)
        for (const float more : {1.0f, 0x1.000002p0f, 0x1.86p0f, 0x1.fffffep0f}) {
            const float largest = std::ldexp(more, magnitude);
            const int e = tile_exponent(largest);
            const fixed::Factors scale = fixed::tile_factors(e);
            const auto expect_same = [&](float x) {
                if (std::fabs(x) > largest) return;
                const uint32_t wanted = Numbers::biased_digits(fixed::quantised(x, scale));
                ASSERT_EQ(fixed::two_biased_digits(x, scale) & 0xffffu, wanted) << x << " of " << largest;
                ASSERT_LE(wanted, 0xffffu);
            };
            for (const float x : {largest, std::nextafter(largest, 0.0f), 0.0f, float_of(1), 0x1p-126f, largest / 3})
                for (const float sign : {1.0f, -1.0f}) expect_same(sign * x);
            for (int n = 1; n < 3100; n += 2) {
                expect_same(std::ldexp(static_cast<float>(8 * n), -e));
                expect_same(-std::ldexp(static_cast<float>(8 * n), -e));
                expect_same(part(random) * largest);
                expect_same(std::ldexp(part(random) * largest, -15)); // about a unit, or less
            }
        }
}

// A row with a largest number of about 1; its products with the factor also lie halfway between two integers.
TEST(Fixed16Digits, AreInTheSumThatRoundsProducts) {
    std::mt19937 random(2);
    std::uniform_real_distribution<float> part(-1.0f, 1.0f);
    for (const float c : {0x1.171548p-3f, 1.0f, 0.25f, 0x1.555556p-2f, 0x1.4f4p-1f}) // the last one fills both digits
        for (int i = 0; i < 200000; ++i) {
            const float factor = fixed::query_factor(c);
            const float at_once =
                fixed::factor_at_once(factor, Numbers::exponent_for(fixed::scaled_query(1.0f, factor)));
            const float halves = (static_cast<float>(i % 60000) - 30000.0f + 0.5f) / at_once;
            for (const float x :
                 {part(random), halves, std::nextafter(halves, 0.0f), 0x1p-14f * part(random), 1.0f, -1.0f}) {
                if (std::fabs(x) > 1) continue;
                const uint32_t wanted = Numbers::biased_digits(fixed::nearest(x * at_once));
                ASSERT_EQ(fixed::two_biased_digits_at_once(x, at_once) & 0xffffu, wanted) << x << " times " << at_once;
            }
        }
}

// Sums are largest where all digits are at the same limit. A kernel may keep L0 * 2^8 + L1.
TEST(Fixed16Digits, NoSumOverflows) {
    int64_t largest = 0;
    const auto take = [&](int64_t count, int64_t a1, int64_t a0, int64_t b1, int64_t b0) {
        const int64_t l0 = count * a1 * b1;
        const int64_t l1 = count * (a1 * b0 + a0 * b1);
        EXPECT_LT(std::abs(l0 * 256 + l1), int64_t{1} << 31);
        const int32_t both = combined(static_cast<int32_t>(l0), static_cast<int32_t>(l1));
        EXPECT_EQ(both, (l0 * 256 + l1) >> 8);
        largest = std::max<int64_t>(largest, std::abs(both));
    };
    for (const int64_t b1 : {-127, 127})
        for (const int64_t b0 : {-128, 127}) {
            for (const int64_t a1 : {-127, 127})
                for (const int64_t a0 : {-128, 127}) take(kMostColumns, a1, a0, b1, b0);
            for (const int64_t p0 : {0, 255}) take(kTileKeys, 255, p0, b1, b0);
        }
    EXPECT_GT(largest, int64_t{1} << 21);
    EXPECT_LT(largest, int64_t{1} << 22); // a difference is exact as a float
}

// Every engine takes the table from the contract; this hash is independent of it.
TEST(Fixed16Table, HasTheseBitsForever) {
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (const uint32_t fraction : kExp2Table.fraction)
        for (int byte = 0; byte < 4; ++byte) hash = (hash ^ (fraction >> 8 * byte & 255)) * 1099511628211u;
    EXPECT_EQ(hash, 15170585349756374549u);
}

// Every exponent from the least that kernels compute with (kLeastWeightBits of weights_simd.h) to the largest.
TEST(Fixed16Weight, OfSegmentsIsTheTables) {
    constexpr auto kTopUnits = static_cast<int32_t>(kTop * kTableSize);
    for (int32_t exponent = kTopUnits - (1 << 17); exponent <= kTopUnits; ++exponent) {
        const uint32_t bits = (static_cast<uint32_t>(exponent) << (23 - kFractionBits)) + (127u << 23);
        ASSERT_EQ(fixed::nearest(cpu::exp2_by_segments<cpu::Exp2Operations>(bits)),
                  weight_at(exponent, kExp2Table.fraction[exponent & (kTableSize - 1)]))
            << exponent;
    }
}

int32_t weight(int32_t x, int32_t largest, Unit unit) { return Fixed16Rules::weight_of(x, largest, unit); }

// The weight for an exponent in units of 2^-12, by the table.
int32_t weight_by_statement(double exponent) {
    if (exponent <= -1) return 0;
    if (exponent < 0) return 1;
    const double whole = std::floor(exponent);
    const auto i = static_cast<size_t>((exponent - whole) * kTableSize);
    const float entry = float_of(0x3f800000u + kExp2Table.fraction[i]);
    return static_cast<int32_t>(std::nearbyint(std::ldexp(double{entry}, static_cast<int>(whole))));
}

// F from 12 down to where a difference of one exceeds all weights; scores where the last bits count for all of them.
TEST(Fixed16Weight, IsThePowerOfTwoOfTheTable) {
    for (int f = 12; f >= -127; --f) {
        const Unit unit = unit_of(8, f + 8);
        for (const int32_t largest : {0, 1, 12345, (1 << 22) - 1, -(1 << 20), -(1 << 22) + 200000}) {
            const int32_t step = f > 4 ? 1 + (1 << (f - 4)) / 7 : 1;
            for (int32_t below = 0; below <= 180000; below += f > 0 || below < 40 ? step : 30011) {
                const double exponent = 16 - 0x1p-8 - std::ldexp(static_cast<double>(below), -f);
                const int32_t p = weight(largest - below, largest, unit);
                ASSERT_EQ(p, weight_by_statement(exponent)) << below << " below, F = " << f;
            }
        }
    }
}

// 16 - 2^-12 instead would break this: below 2^16 for every F.
TEST(Fixed16Weight, OfTheLargestScoreIs65359) {
    for (int f = -127; f <= 12; ++f) EXPECT_EQ(weight(7, 7, unit_of(8, f + 8)), 65359) << f;
    EXPECT_NEAR(65359, std::exp2(double{kTop}), 0.5);
    EXPECT_EQ(kOne, std::exp2(double{kTop}));
}

TEST(Fixed16Weight, HasTheseBitsForever) {
    const std::pair<int32_t, int32_t> scores[] = {{0, 65359},     {-1, 65348},    {-12, 65226},   {-345, 61652},
                                                  {-4096, 32679}, {-6789, 20718}, {-23456, 1234}, {-45678, 29},
                                                  {-65536, 1},    {-69000, 1},    {-69616, 0}};
    for (const auto& [x, p] : scores) EXPECT_EQ(weight(x, 0, unit_of(14, 14)), p) << x;
}

TEST(Fixed16Sums, OfValuesCountTheirExponentToo) {
    const TileWeights weights = Fixed16Rules::tile_weights(0, -3.0f, -20);
    EXPECT_EQ(weights.sums, 0x1p-3f);
    EXPECT_EQ(weights.values, 0x1p-23f);
    EXPECT_EQ(value_weight(0), 1.0f);
    EXPECT_EQ(value_weight(-126), 0x1p-126f);
    EXPECT_EQ(value_weight(-127), 0.0f);
    EXPECT_EQ(value_weight(-255), 0.0f);
}

TEST(Fixed16Reference, IsRaisedByMoreThanThirty) {
    for (const float reference : {0.0f, -40.25f, 1e6f}) {
        EXPECT_FALSE(raises(reference, reference));
        EXPECT_FALSE(raises(reference + 30, reference));
        EXPECT_TRUE(raises(reference + 30.0625f, reference));
    }
    EXPECT_TRUE(raises(-kLargestFloat, -HUGE_VALF));
    EXPECT_FALSE(raises(-HUGE_VALF, 0.0f));
}

} // namespace
} // namespace hw4::fixed16
