#include "src/contracts/f32/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "src/contracts/contract.h"
#include "src/io/case_values.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_float.h"
#include "tests/support/problems.h"

namespace hw4 {
namespace {

float exp2_of(float x) { return exp2_scaled(x, 1.0f, kRoundToInt); }

// Runs check(first, last) over the bit patterns [first, last) in one piece per processor and returns the largest
// result.
template <class Check>
double largest_over(uint32_t first, uint32_t last, Check check) {
    const unsigned pieces = std::max(1u, std::thread::hardware_concurrency());
    std::vector<double> results(pieces);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < pieces; ++i)
        threads.emplace_back([&, i] {
            const uint64_t count = last - first;
            results[i] = check(static_cast<uint32_t>(first + count * i / pieces),
                               static_cast<uint32_t>(first + count * (i + 1) / pieces));
        });
    for (std::thread& thread : threads) thread.join();
    return *std::max_element(results.begin(), results.end());
}

// Every float of the domain, together with the next two: from the deepest weight to the headroom.
TEST(Exp2, EveryFloatOfItsDomainIsWithinTheStatedError) {
    constexpr float kTiny = 0x1p-27f;
    const double below = largest_over(bits_of(-kTiny), bits_of(kDeepest - 1.0f) + 1, largest_exp2_error);
    const double above = largest_over(bits_of(kTiny), bits_of(kHeadroom + 1.0f) + 1, largest_exp2_error);
    RecordProperty("largest_relative_error", std::to_string(std::max(below, above)));
    std::printf("largest relative error of exp2: %.4g below zero, %.4g above\n", below, above);
    EXPECT_LT(below, 1.5e-7);
    EXPECT_LT(above, 1.5e-7);
}

// Every seventh without HW4_SOAK.
TEST(Exp2, EveryTinyFloatGivesExactlyOne) {
    const auto differences = [](uint32_t first, uint32_t last) {
        return exp2_differences_from_one(first, last, soaks() ? 1 : 7);
    };
    EXPECT_EQ(largest_over(bits_of(0.0f), bits_of(0x1p-27f) + 1, differences), 0);
    EXPECT_EQ(largest_over(bits_of(-0.0f), bits_of(-0x1p-27f) + 1, differences), 0);
}

TEST(Exp2, WholeNumbersGiveExactPowers) {
    for (int e = static_cast<int>(kDeepest); e <= 8; ++e)
        EXPECT_EQ(exp2_of(static_cast<float>(e)), std::ldexp(1.0f, e));
}

// All other code, kernels included, takes its constants from the contract; these bits are independent of it. The first
// three change with the last bit of any of the polynomial's coefficients.
TEST(Exp2, HasTheseBitsForever) {
    const std::pair<float, uint32_t> fractions[] = {
        {-0x1.b72a72p-2f, 0x3f3e2ae5}, {-0x1.d88c4ap-2f, 0x3f39eb2a}, {-0x1.f60266p-2f, 0x3f363f66},
        {-0x1p-1f, 0x3f3504f2},        {-0x1.555556p-2f, 0x3f4b2ff5}, {-0x1p-2f, 0x3f5744fc},
        {-0x1.8p-3f, 0x3f60ccde},      {-0x1.3c0ca4p-4f, 0x3f72aafc}, {-0x1p-8f, 0x3f7f4ecb},
        {-0x1p-20f, 0x3f7ffff5},       {-0.0f, 0x3f800000},           {0x1p-24f, 0x3f800000},
        {0x1p-12f, 0x3f80058c},        {0x1.999998p-4f, 0x3f892fdf},  {0x1p-3f, 0x3f8b95c1},
        {0x1.2p-3f, 0x3f8d1adf},       {0x1p-2f, 0x3f9837f0},         {0x1.555556p-2f, 0x3fa14518},
        {0x1.c71c72p-2f, 0x3fae2e5f},  {0x1p-1f, 0x3fb504f2}};
    for (const auto& [r, bits] : fractions) EXPECT_EQ(bits_of(exp2_fraction(r)), bits) << r;
    const std::pair<float, uint32_t> scores[] = {{-0x1.ep+6f, 0x34a43ae8},     {-0x1.0d999ap+5f, 0x3c72a2b3},
                                                 {-0x1p+3f, 0x3ebc5ab3},       {-0x1.333334p-2f, 0x3f7693e9},
                                                 {0x1.666666p-1f, 0x3f8bb461}, {0x1.8ae148p+3f, 0x4095a3f8},
                                                 {0x1.1ff5c2p+6f, 0x45fce7ab}, {0x1.2p+6f, 0x45fd38aa}};
    for (const auto& [x, bits] : scores) EXPECT_EQ(bits_of(exp2_scaled(x, scale_for(64).c, kRoundToInt)), bits) << x;
}

TEST(Scale, IsLog2eOverRootD) {
    EXPECT_EQ(bits_of(scale_for(32).c), 0x3e8293eeu);
    EXPECT_EQ(bits_of(scale_for(64).c), 0x3e38aa3bu);
    EXPECT_EQ(bits_of(scale_for(128).c), 0x3e0293eeu);
    EXPECT_EQ(scale_for(1).c, 1.44269504f);
    for (int d = 1; d <= 256; ++d) EXPECT_NEAR(scale_for(d).c * scale_for(d).inv_c, 1.0f, 2e-7f) << d;
}

TEST(Scale, IsTheUsualOneHoweverItWasComputed) {
    for (int d = 1; d <= 4096; ++d) {
        const double usual = 1 / std::sqrt(static_cast<double>(d));
        for (const double given : {usual, std::pow(d, -0.5), double{static_cast<float>(usual)}}) {
            ASSERT_EQ(scale_for(d, given).c, scale_for(d).c) << d;
            ASSERT_EQ(scale_for(d, given).inv_c, scale_for(d).inv_c) << d;
            ASSERT_EQ(gradient_scale_for(d, given), gradient_scale_for(d)) << d;
        }
        ASSERT_NE(scale_for(d, usual * 1.0000003).c, scale_for(d).c) << d;
    }
}

TEST(Scale, IsAnotherOneThatIsGiven) {
    EXPECT_EQ(scale_for(64, 0.25).c, 2 * scale_for(64).c);
    EXPECT_EQ(scale_for(64, 0.25).inv_c, scale_for(64).inv_c / 2);
    EXPECT_EQ(gradient_scale_for(64, 0.3), 0.3f);
    for (const double scale : {kLeastScale, kMostScale}) {
        EXPECT_TRUE(std::isnormal(scale_for(1, scale).c) && std::isnormal(scale_for(1, scale).inv_c));
        EXPECT_TRUE(std::isnormal((kIntegerReach - kDeepest) * scale_for(1, scale).inv_c));
    }
}

// Scores on both sides of the threshold where the reference changes its form, and far from it.
std::vector<float> telling_scores(Scale scale) {
    std::vector<float> scores = {0.0f, 1e-30f, -1e-30f, 1.0f,   -1.0f,    100.0f,   -100.0f,
                                 1e8f, -1e8f,  1e20f,   -1e20f, 0x1p126f, -0x1p126f};
    for (const float side : {-kIntegerReach, kIntegerReach})
        for (const float offset : {-9.0f, -1.0f, 0.0f, 1.0f, 9.0f}) scores.push_back((side + offset) * scale.inv_c);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> exponent(-30, 126);
    for (int i = 0; i < 1000; ++i) scores.push_back(std::exp2(exponent(random)) * (i % 2 ? 1.0f : -1.0f));
    return scores;
}

class ReferenceOfDim : public testing::TestWithParam<int> {};

// The least float with an exponent of at least this, in base-2 units.
float least_score_of(float exponent, Scale scale) {
    float score = exponent * scale.inv_c;
    while (score * scale.c >= exponent) score = std::nextafter(score, -HUGE_VALF);
    while (score * scale.c < exponent) score = std::nextafter(score, HUGE_VALF);
    return score;
}

// Around each threshold where the reference changes its form, float by float: it belongs to the inner side.
TEST_P(ReferenceOfDim, ChangesItsFormJustBeyondEachBorder) {
    const Scale scale = scale_for(GetParam());
    const auto expect_around = [&](float border, bool inner_is_above, auto is_inner) {
        float score = least_score_of(border, scale);
        for (int i = 0; i < 4; ++i) score = std::nextafter(score, -HUGE_VALF);
        int inner = 0;
        for (int i = 0; i < 8; ++i, score = std::nextafter(score, HUGE_VALF)) {
            const float exponent = score * scale.c;
            const bool wanted = inner_is_above ? exponent >= border : exponent <= border;
            EXPECT_EQ(is_inner(reference_at(score, scale)), wanted) << border << " " << exponent;
            inner += wanted;
        }
        EXPECT_TRUE(inner >= 3 && inner <= 7) << border; // the test saw both sides
    };
    const auto has_no_M = [](const Reference& reference) { return reference.M == 0.0f; };
    const auto has_no_origin = [](const Reference& reference) { return reference.origin == 0.0f; };
    expect_around(-8.0f, true, has_no_M);
    expect_around(72.0f, false, has_no_M);
    expect_around(-0x1p21f, true, has_no_origin);
    expect_around(0x1p21f, false, has_no_origin);
}

TEST_P(ReferenceOfDim, IsRaisedAboveSeventyTwoUnitsMoreAndFlooredAtMinusOneHundredAndTwenty) {
    const Scale scale = scale_for(GetParam());
    for (const float M : {0.0f, 100.0f, -40.0f, 5000.0f}) {
        const Reference reference = reference_at(M * scale.inv_c, scale);
        ASSERT_EQ(reference.M, M);
        const float most = (M + 72.0f) * scale.inv_c;
        EXPECT_TRUE(reference.covers(most)) << M;
        EXPECT_FALSE(reference.covers(std::nextafter(most, HUGE_VALF))) << M;
        EXPECT_EQ(reference.floor, (M - 120.0f) * scale.inv_c) << M;
    }
    const float far = 0x1p24f * scale.inv_c;
    const Reference reference = reference_at(far, scale);
    EXPECT_EQ(reference.origin, far);
    EXPECT_TRUE(reference.covers(far));
    EXPECT_FALSE(reference.covers(std::nextafter(far, HUGE_VALF)));
    EXPECT_EQ(reference.floor, -120.0f * scale.inv_c);
}

TEST(PowerOfTwo, IsNothingBelowTheLeastNormalNumber) {
    EXPECT_EQ(power_of_two(0.0f), 1.0f);
    EXPECT_EQ(power_of_two(-126.0f), 0x1p-126f);
    for (const float k : {-127.0f, -128.0f, -1e9f, -HUGE_VALF}) EXPECT_EQ(bits_of(power_of_two(k)), 0u) << k;
}

// A raise must never make sums larger: a factor above one could overflow them.
TEST_P(ReferenceOfDim, RaisingNeverGrowsSums) {
    const Scale scale = scale_for(GetParam());
    const std::vector<float> scores = telling_scores(scale);
    for (const float from_score : scores) {
        const Reference from = reference_at(from_score, scale);
        for (const float to_score : scores) {
            if (from.covers(to_score)) continue;
            const float factor = rescale_factor(from, reference_at(to_score, scale), scale);
            EXPECT_GE(factor, 0.0f);
            EXPECT_LE(factor, 1.0f) << from_score << " to " << to_score;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Dims, ReferenceOfDim, testing::Values(1, 7, 32, 33, 64, 128, 256, 4096));

TEST(Orders, ALanesKeysAreAddedOneByOne) {
    // 2^24 + 1 rounds to 2^24, twice; in pairs or from the other end the sum would be 2^24 + 4.
    const float big = 0x1p24f;
    const float p[kLaneKeys] = {1.0f, big, 1.0f, 2.0f};
    EXPECT_EQ(lane_share(p), big + 2.0f);
}

TEST(Orders, LanesCloseAsABalancedTree) {
    // 2^24 + 1 rounds to 2^24: only the specified pairs keep these ones from being lost.
    const float big = 0x1p24f;
    const float lanes[kSumLanes] = {big, 1.0f, 1.0f, 1.0f, -big, -1.0f, 1.0f, 1.0f};
    EXPECT_EQ(close_lanes(lanes), ((big + 1.0f) + 2.0f) + ((-big - 1.0f) + 2.0f));
    EXPECT_EQ(close_lanes(lanes), 4.0f);
}

TEST(Contracts, SayWhatTheyLack) {
    EXPECT_EQ(why_not(kF32, Problem(1, 1, 300).of_operation(kBackward)), "");
    EXPECT_EQ(why_not(kFixed, {1, 1, 256}), "");
    EXPECT_EQ(why_not(kFixed, {1, 1, 257}), "has d = 257, the contract fixed needs at most 256");
    EXPECT_EQ(why_not(kFixed, Problem(1, 1, 1).of_operation(kBackward)),
              "asks for backward, which the contract fixed lacks");
}

TEST(Contracts, HaveTheseRevisions) {
    EXPECT_EQ(kF32.revision_of(kForward), "f32.forward/1");
    EXPECT_EQ(kF32.revision_of(kBackward), "f32.backward/1");
    EXPECT_EQ(kFixed.revision_of(kForward), "fixed.forward/2");
    EXPECT_EQ(kFixed16.revision_of(kForward), "fixed16.forward/1");
}

// Each head gives the bytes that it gives alone, with the keys of its group.
TEST(ComputeByReference, TakesHeadsOneByOne) {
    const Problem problem = problem_of({2, 6, 2, 37, 70, 9});
    const std::vector<float> in = values_of(problem, CaseKind::spread);
    const size_t q = problem.floats_in(problem.queries);
    const size_t k = problem.floats_in(problem.keys);
    for (const Contract* contract : contracts()) {
        std::vector<float> out(static_cast<size_t>(problem.output_rows() * problem.dim), NAN);
        compute_by_reference(*contract, problem, in.data(), out.data());
        for (size_t batch = 0; batch < 2; ++batch)
            for (size_t head = 0; head < 6; ++head) {
                const float* start = in.data() + batch * (6 * q + 4 * k);
                std::vector<float> alone(q, NAN);
                contract->find(kForward)->reference(
                    {37,
                     70,
                     9,
                     {start + head * q, start + 6 * q + head / 3 * k, start + 6 * q + (2 + head / 3) * k},
                     {alone.data()}});
                const float* together = out.data() + (batch * 6 + head) * q;
                EXPECT_EQ(std::memcmp(alone.data(), together, q * sizeof(float)), 0)
                    << contract->name << ", batch " << batch << ", head " << head;
            }
    }
}

} // namespace
} // namespace hw4
