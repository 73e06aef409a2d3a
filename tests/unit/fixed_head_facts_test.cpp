// What the pre-pass of fixed records about a head's tiles, and when kernels may rely on it. The facts are combined as
// the kernels do: by maxima, starting at 0.
#include "src/gpu/fixed/forward/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "src/contracts/fixed16/forward.h"

namespace hw4::gpu::fixed_point {
namespace {

ExponentRange range_of(std::initializer_list<int> exponents) {
    ExponentRange range{0, 0};
    for (const int exponent : exponents) {
        const ExponentRange of = ExponentRange::of(exponent);
        range.above = std::max(range.above, of.above);
        range.below = std::max(range.below, of.below);
    }
    return range;
}

TEST(ExponentRange, HoldsTheLargestAndTheSmallest) {
    for (int a = ExponentRange::kLeast; a <= ExponentRange::kMost; ++a)
        for (int b = a; b <= ExponentRange::kMost; ++b) {
            const ExponentRange range = range_of({a, b, a});
            ASSERT_EQ(range.smallest(), a);
            ASSERT_EQ(range.largest(), b);
            ASSERT_EQ(range.is_one(), a == b);
        }
}

TEST(ExponentRange, OfNoTileIsNotOne) { EXPECT_FALSE((ExponentRange{0, 0}.is_one())); }

TEST(ExponentRange, IsThatOfAllFloats) {
    EXPECT_EQ(fixed16::Numbers::exponent_for(std::numeric_limits<float>::max()), ExponentRange::kLeast);
    EXPECT_EQ(fixed::exponent_for(0.0f), ExponentRange::kMost);
    EXPECT_EQ(fixed::exponent_for(std::numeric_limits<float>::denorm_min()), ExponentRange::kMost);
    EXPECT_GT(fixed::exponent_for(std::numeric_limits<float>::max()), ExponentRange::kLeast);
    EXPECT_LT(fixed16::Numbers::exponent_for(0.0f), ExponentRange::kMost);
}

TEST(IsSteady, WhereNothingChangesFromTileToTile) {
    const auto facts = [](const ExponentRange& k, const ExponentRange& v) { return HeadFacts{k, v, 1.0f}; };
    EXPECT_TRUE(is_steady(facts(range_of({21, 21}), range_of({20, 20, 20})), 22));
    EXPECT_FALSE(is_steady(facts(range_of({21, 20}), range_of({20})), 22));
    EXPECT_FALSE(is_steady(facts(range_of({21}), range_of({20, -40})), 22));
    EXPECT_FALSE(is_steady(facts({0, 0}, {0, 0}), 22)); // unknown
}

// unit_of() cuts finer scores in the same way.
TEST(IsSteady, WhereNoScoreIsTooFine) {
    const HeadFacts facts{range_of({21}), range_of({20}), 1.0f};
    for (int row = ExponentRange::kLeast; row <= ExponentRange::kMost; ++row)
        EXPECT_EQ(is_steady(facts, row), fixed::unit_of(row, 21).cut == 0) << row;
}

} // namespace
} // namespace hw4::gpu::fixed_point
