// Properties of attention, as tests over a list of subjects: the reference and the CPU's kernels (properties_test.cpp),
// the GPU's kernels (gpu_properties_test.cu). Other tests compare the subjects' bytes; these tests show that the
// subjects compute attention, and check the exact consequences of the contract.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "src/contracts/fixed/numbers.h"
#include "tests/support/attention_case.h"
#include "tests/support/digit_tiles.h"
#include "tests/support/subject.h"

namespace hw4 {

// Q, K and V of a case; a test changes one matrix at a time.
struct Matrices {
    Problem problem;
    std::vector<float> qkv;

    Matrices(const Problem& s, CaseKind kind)
        : problem(s), qkv(static_cast<size_t>(s.batches) * s.batch_input_floats()) {
        fill_case_values({s, kind, 5}, 0, qkv.size(), qkv.data());
    }

    size_t tokens() const { return static_cast<size_t>(problem.queries); }
    size_t dim() const { return static_cast<size_t>(problem.dim); }
    size_t batches() const { return static_cast<size_t>(problem.batches); }

    // `which` is 0, 1, 2 for Q, K, V.
    float* matrix(size_t batch, size_t which) {
        return qkv.data() + batch * problem.batch_input_floats() + which * problem.batch_output_floats();
    }

    // Calls change(x, row, column) for every element of one matrix of each batch.
    template <class Change>
    Matrices& each(size_t which, Change change) {
        for (size_t b = 0; b < batches(); ++b)
            for (size_t i = 0; i < problem.batch_output_floats(); ++i)
                change(matrix(b, which)[i], i / dim(), i % dim());
        return *this;
    }

    Matrices& scale(size_t which, float factor) {
        return each(which, [&](float& x, size_t, size_t) { x *= factor; });
    }
};

constexpr size_t kQ = 0;
constexpr size_t kK = 1;
constexpr size_t kV = 2;

// Sizes on both sides of tiles, segments and blocks of rows; odd and round numbers of columns.
inline std::vector<Problem> telling_problems() {
    return {{1, 1, 1}, {5, 3, 2}, {3, 33, 7}, {2, 64, 32}, {1, 129, 64}, {2, 200, 100}, {1, 300, 128}, {1, 70, 256}};
}

inline std::vector<size_t> identity(size_t count) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
}

inline std::vector<size_t> shuffled(size_t count) {
    std::vector<size_t> order = identity(count);
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(count)));
    return order;
}

// to[i][j] = from[rows[i]][columns[j]]
inline void permute(const float* from, float* to, const std::vector<size_t>& rows, const std::vector<size_t>& columns) {
    for (const size_t row : rows)
        for (const size_t column : columns) *to++ = from[row * columns.size() + column];
}

class Properties : public testing::TestWithParam<Subject> {
protected:
    void SetUp() override {
        const std::string refusal = GetParam().why_not({1, 1, 32});
        if (!refusal.empty()) GTEST_SKIP() << refusal;
    }

    static bool in_floats() { return GetParam().contract == &kF32; }

    // A power of two is exact under every contract. A sign change is not exact in digits: the digits of -n are not
    // the digits of n with the signs changed where one of them is -128.
    static std::vector<float> exact_factors(std::vector<float> factors) {
        if (!in_floats())
            factors.erase(std::remove_if(factors.begin(), factors.end(), [](float x) { return x < 0; }), factors.end());
        return factors;
    }

    // All problems up to d = 256 that the subject can take; at least one.
    std::vector<Problem> problems() const {
        std::vector<Problem> taken;
        for (const Problem& problem : telling_problems())
            if (GetParam().why_not(problem).empty()) taken.push_back(problem);
        return taken;
    }

    static std::vector<float> attend(const Matrices& test) { return GetParam().attend(test.problem, test.qkv); }

    static std::string place(const Matrices& test) {
        return std::to_string(test.problem.batches) + " " + std::to_string(test.problem.queries) + " " +
               std::to_string(test.problem.dim);
    }
};

// ---- Softmax and means

// The largest error of fixed where all weights are equal, and so exact: it rounds each value to a unit of which the
// tile's largest value has 2^22 or more (fixed16 2^14), then every tile's sum to another unit, and the sums over tiles.
inline double fixed_rounding_of_values(const Contract& contract, double largest, int64_t tokens) {
    return largest * (4 + static_cast<double>(tokens) / 64) * digit_unit_of(contract);
}

// The same for any weights: 1.5 more units for each of the 64 keys, or 1.3 for each of 128, and one more, where the
// largest weight is at least half.
inline double fixed_rounding(const Contract& contract, double largest, int64_t tokens) {
    return largest * 200 * digit_unit_of(contract) + fixed_rounding_of_values(contract, largest, tokens);
}

inline double largest_magnitude(const float* x, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(double{x[i]}));
    return largest;
}

// All keys weigh the same. Each of N values is rounded in a sum of up to 64 and one of N/64; the division follows.
TEST_P(Properties, WithoutScoresEveryRowIsTheMeanOfV) {
    for (const Problem& problem : problems()) {
        Matrices test(problem, CaseKind::uniform);
        test.each(kK, [](float& x, size_t row, size_t) { x = row % 3 == 0 ? -0.0f : 0.0f; });
        const std::vector<float> out = attend(test);
        const size_t n = test.tokens();
        const size_t d = test.dim();
        for (size_t i = 0; i < out.size(); ++i) {
            const size_t b = i / (n * d);
            const size_t first = b * n * d + i % d; // of the column
            ASSERT_EQ(bits_of(out[i]), bits_of(out[first])) << place(test) << ": rows differ, " << i;
            if (i != first) continue;
            double sum = 0;
            double size = 0;
            for (size_t j = 0; j < n; ++j) {
                const double x = test.matrix(b, kV)[j * d + i % d];
                sum += x;
                size += std::fabs(x);
            }
            const double count = static_cast<double>(n);
            const double rounding =
                in_floats() ? size / count * (67 + count / 64) * 0x1p-24
                            : fixed_rounding_of_values(*GetParam().contract,
                                                       largest_magnitude(test.matrix(b, kV), n * d), problem.queries);
            ASSERT_NEAR(out[i], sum / count, rounding) << place(test) << ", " << i;
        }
        // It also does not matter which of Q and K is zero.
        Matrices other(problem, CaseKind::uniform);
        other.scale(kQ, 0.0f);
        EXPECT_TRUE(same_bytes(out, attend(other))) << place(test);
    }
}

// With weights of all magnitudes both sums of the quotient round: 64 and N/64 times above, 3, N/32 and 3 times below.
TEST_P(Properties, AConstantColumnOfVComesOutWithinTheRoundingOfTheSums) {
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::brink, CaseKind::climb})
        for (const Problem& problem : problems()) {
            Matrices test(problem, kind);
            const auto constant = [](size_t column) { return 1.0f / static_cast<float>(column + 3); };
            test.each(kV, [&](float& x, size_t, size_t column) { x = constant(column); });
            const std::vector<float> out = attend(test);
            const double roundings = 64 + 6 + 3 + 3.0 * static_cast<double>(problem.queries) / 64;
            const double of_fixed = fixed_rounding(*GetParam().contract, double{constant(0)}, problem.queries);
            for (size_t i = 0; i < out.size(); ++i) {
                const float c = constant(i % test.dim());
                ASSERT_NEAR(out[i], c, in_floats() ? c * roundings * 0x1p-24 : of_fixed) << place(test) << ", " << i;
            }
        }
}

// ---- Exact properties

TEST_P(Properties, VTimesAPowerOfTwoIsOTimesThat) {
    for (const Problem& problem : problems()) {
        const std::vector<float> out = attend(Matrices(problem, CaseKind::uniform));
        for (const float factor : exact_factors({0x1p-60f, 0.125f, 2.0f, 0x1p40f, -1.0f})) {
            std::vector<float> expected = out;
            for (float& x : expected) x = x * factor + 0.0f; // O has no -0
            EXPECT_TRUE(same_bytes(expected, attend(Matrices(problem, CaseKind::uniform).scale(kV, factor))))
                << problem.queries << " " << problem.dim << ", " << factor;
        }
    }
}

// Each problem has another of the factors with the next kind.
TEST_P(Properties, APowerOfTwoOrASignMayMoveFromQToK) {
    const std::vector<float> factors = exact_factors({0x1p20f, -1.0f, 0x1p-9f, -4.0f});
    size_t turn = 0;
    for (const CaseKind kind :
         {CaseKind::uniform, CaseKind::negative, CaseKind::spread, CaseKind::huge, CaseKind::brink}) {
        size_t of_problem = turn++;
        for (const Problem& problem : problems()) {
            Matrices moved(problem, kind);
            const std::vector<float> out = attend(moved);
            const float factor = factors[of_problem++ % factors.size()];
            EXPECT_TRUE(same_bytes(out, attend(moved.scale(kQ, factor).scale(kK, 1.0f / factor))))
                << place(moved) << ", " << factor;
        }
    }
}

// Permuting the rows of Q, or the columns of V, permutes the output's in the same way.
TEST_P(Properties, APermutationOfQueriesOrColumnsOfVPermutesTheOutput) {
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::brink})
        for (const Problem& problem : problems())
            for (const size_t which : {kQ, kV}) {
                Matrices test(problem, kind);
                const std::vector<size_t> rows = which == kQ ? shuffled(test.tokens()) : identity(test.tokens());
                const std::vector<size_t> columns = which == kV ? shuffled(test.dim()) : identity(test.dim());
                Matrices permuted = test;
                const std::vector<float> out = attend(test);
                std::vector<float> expected(out.size());
                for (size_t b = 0; b < test.batches(); ++b) {
                    permute(test.matrix(b, which), permuted.matrix(b, which), rows, columns);
                    const size_t first = b * problem.batch_output_floats();
                    permute(out.data() + first, expected.data() + first, rows, columns);
                }
                EXPECT_TRUE(same_bytes(expected, attend(permuted))) << place(test) << ", " << which;
            }
}

// ---- Exact properties of integer sums

class FixedProperties : public Properties {};

// A random order of a tile's keys in which each key stays in its lane.
inline std::vector<size_t> shuffled_within_lanes(size_t keys) {
    std::vector<size_t> order(keys);
    for (int lane = 0; lane < fixed::kLanes; ++lane) {
        std::vector<size_t> places;
        for (size_t key = 0; key < keys; ++key)
            if (fixed::lane_of(static_cast<int>(key)) == lane) places.push_back(key);
        const std::vector<size_t> from = shuffled(places.size());
        for (size_t i = 0; i < places.size(); ++i) order[places[i]] = places[from[i]];
    }
    return order;
}

TEST_P(FixedProperties, APermutationOfTheKeysOfALaneOfATileChangesNothing) {
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::brink})
        for (const Problem& problem : problems()) {
            Matrices test(problem, kind);
            Matrices permuted = test;
            const auto tile = static_cast<size_t>(tile_keys_of(*GetParam().contract));
            for (size_t first = 0; first < test.tokens(); first += tile)
                for (size_t b = 0; b < test.batches(); ++b)
                    for (const size_t which : {kK, kV})
                        permute(test.matrix(b, which) + first * test.dim(),
                                permuted.matrix(b, which) + first * test.dim(),
                                shuffled_within_lanes(std::min(tile, test.tokens() - first)), identity(test.dim()));
            EXPECT_TRUE(same_bytes(attend(test), attend(permuted))) << place(test);
        }
}

TEST_P(FixedProperties, APermutationOfTheColumnsOfQAndKChangesNothing) {
    for (const CaseKind kind : {CaseKind::uniform, CaseKind::huge})
        for (const Problem& problem : problems()) {
            Matrices test(problem, kind);
            const std::vector<size_t> order = shuffled(test.dim());
            Matrices permuted = test;
            for (size_t b = 0; b < test.batches(); ++b)
                for (const size_t which : {kQ, kK})
                    permute(test.matrix(b, which), permuted.matrix(b, which), identity(test.tokens()), order);
            EXPECT_TRUE(same_bytes(attend(test), attend(permuted))) << place(test);
        }
}

} // namespace hw4
