#include "src/contracts/contract.h"
#include "src/problem/domain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/contracts/f32/backward.h"
#include "tests/support/problems.h"
#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float above(float x) { return std::nextafter(x, kInf); }

Failure bad_data(const std::string& message) { return {ExitCode::bad_data, "a.in: " + message}; }

// The refusal of a whole case that comes this many rows at a time.
Failure failure_of_case(const Problem& problem, const std::vector<float>& data, int64_t rows_at_once = 1 << 20) {
    return failure_of([&] {
        DomainCheck check("a.in", problem, kF32.domain);
        for (int64_t row = 0; row < problem.input_rows(); row += rows_at_once)
            check.check(row, std::min(rows_at_once, problem.input_rows() - row), data.data() + row * problem.dim);
    });
}

// `count` batches of 4 tokens with 3 features; batch `first` is the first.
class DomainTest : public ::testing::Test {
protected:
    static constexpr int64_t kFirst = 5;
    const Problem problem_{100, 4, 3};
    std::vector<float> data_ = std::vector<float>(2 * 36, 1.0f);

    float* batch(int64_t b) { return data_.data() + 36 * (b - kFirst); }
    float* q(int64_t b) { return batch(b); }
    float* k(int64_t b) { return batch(b) + 12; }
    float* v(int64_t b) { return batch(b) + 24; }

    // Checks the two batches in stretches of this many rows, examined last to first and joined first to last.
    Failure failure_in_stretches(int64_t rows) const {
        return failure_of([&] {
            DomainCheck check("a.in", problem_, kF32.domain);
            std::vector<Findings> findings(static_cast<size_t>((24 + rows - 1) / rows));
            for (size_t i = findings.size(); i-- > 0;) {
                const int64_t first = static_cast<int64_t>(i) * rows;
                findings[i] =
                    check.examine(kFirst * 12 + first, std::min(rows, 24 - first), data_.data() + first * problem_.dim);
            }
            for (const Findings& found : findings) check.join(found);
        });
    }

    Failure failure() const { return failure_in_stretches(24); }
};

TEST(DomainOfHeads, IsThatOfAllHeadsOfABatch) {
    const Problem problem = problem_of({1, 2, 2, 2, 3, 1});
    std::vector<float> data(static_cast<size_t>(problem.input_rows()), 1.0f);
    EXPECT_EQ(failure_of_case(problem, data), Failure{});
    data[3] = 0x1p126f; // Q of head 1, row 1
    data[9] = 2;        // K of head 1, row 2
    EXPECT_EQ(failure_of_case(problem, data), bad_data("batch 0, Q, head 1, row 1: scores up to 1.70141183e+38 "
                                                       "(sum|q| * max|K|), need at most 8.50705917e+37"));
    data[3] = 1;
    data[15] = 0x1p51f;
    EXPECT_EQ(failure_of_case(problem, data),
              bad_data("batch 0, V: N_k * max|V| = 6.75539944e+15, need at most 4.50359963e+15"));
}

TEST_F(DomainTest, ScoresMayReachTheLimitButNotPassIt) {
    ASSERT_EQ(kScoreLimit, 0x1p126);
    k(6)[7] = -0x1p63f;
    q(6)[6] = -0x1p62f;
    q(6)[7] = 0x1p61f;
    q(6)[8] = 0x1p61f; // sum|q| = 2^63
    EXPECT_EQ(failure(), Failure{});
    q(6)[8] = above(0x1p61f);
    EXPECT_EQ(failure(), bad_data("batch 6, Q, row 2: scores up to 8.50705943e+37 (sum|q| * max|K|), need at most "
                                  "8.50705917e+37"));
}

// Q, K and V of a batch in different stretches, two batches in one stretch, one row at a time.
TEST_F(DomainTest, FindsTheSameInStretchesOfAnyLength) {
    const auto expect = [&](const Failure& wanted) {
        for (int64_t rows = 1; rows <= 25; ++rows) EXPECT_EQ(failure_in_stretches(rows), wanted) << rows;
    };
    expect({});
    k(5)[0] = 0x1p100f;
    q(5)[4] = 0x1p30f;
    q(5)[7] = 0x1p31f;
    q(5)[10] = -0x1p31f; // as large, but later
    expect(bad_data("batch 5, Q, row 2: scores up to 2.72225894e+39 (sum|q| * max|K|), need at most 8.50705917e+37"));
    q(5)[11] = 0x1p8f; // larger by the least possible difference of sums
    expect(bad_data("batch 5, Q, row 3: scores up to 2.72225926e+39 (sum|q| * max|K|), need at most 8.50705917e+37"));
    k(5)[0] = 1.0f;
    k(6)[7] = -0x1p63f;
    q(6)[8] = 0x1p64f;
    expect(bad_data("batch 6, Q, row 2: scores up to 1.70141183e+38 (sum|q| * max|K|), need at most 8.50705917e+37"));
    k(6)[7] = 1.0f;
    v(5)[2] = 0x1p51f;
    expect(bad_data("batch 5, V: N * max|V| = 9.00719925e+15, need at most 4.50359963e+15"));
    k(6)[11] = kNan; // its stretch may also end the earlier batch
    expect(bad_data("batch 5, V: N * max|V| = 9.00719925e+15, need at most 4.50359963e+15"));
    v(5)[2] = 1.0f;
    expect(bad_data("batch 6, K, row 3, column 2: nan, need a finite number"));
    k(6)[11] = 1.0f;
    v(6)[11] = 0x1p50f;
    expect({});
    v(6)[11] = 0x1p51f;
    expect(bad_data("batch 6, V: N * max|V| = 9.00719925e+15, need at most 4.50359963e+15"));
}

TEST_F(DomainTest, LargestFloatsAreRefusedWithoutOverflow) {
    const float largest = std::numeric_limits<float>::max();
    std::fill(data_.begin(), data_.end(), largest);
    EXPECT_EQ(failure(), bad_data("batch 5, Q, row 0: scores up to 3.47376226e+77 (sum|q| * max|K|), need at most "
                                  "8.50705917e+37"));
    // Alone it is valid where the other side is small enough.
    std::fill(q(5), q(5) + 12, 0.0f);
    std::fill(v(5), v(5) + 12, 0.0f);
    std::fill(q(6), q(6) + 12, std::numeric_limits<float>::denorm_min());
    std::fill(v(6), v(6) + 12, 0.0f);
    EXPECT_EQ(failure(), Failure{});
}

TEST_F(DomainTest, ValuesMayReachTheLimitButNotPassIt) {
    ASSERT_EQ(kValueLimit, 0x1p52);
    v(6)[11] = -0x1p50f; // times 4 tokens
    EXPECT_EQ(failure(), Failure{});
    v(6)[11] = -above(0x1p50f);
    EXPECT_EQ(failure(), bad_data("batch 6, V: N * max|V| = 4.50360016e+15, need at most 4.50359963e+15"));
}

TEST_F(DomainTest, AcceptsDenormalsAndZerosOfBothSigns) {
    const float smallest = std::numeric_limits<float>::denorm_min();
    const std::vector<float> tiny = {0.0f, -0.0f, smallest, -smallest, float_of(0x007fffff), float_of(0x807fffff)};
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = tiny[i % tiny.size()];
    EXPECT_EQ(failure(), Failure{});
}

// Sums and maxima are taken in vectors: every column of a row must count exactly once, wherever a row begins or ends
// within a vector.
class DomainOfDim : public ::testing::TestWithParam<int64_t> {
protected:
    const int64_t dim_ = GetParam();
    const Problem problem_{1, 2, dim_};
    std::vector<float> data_ = std::vector<float>(problem_.batch_input_floats());

    float* matrix(int which) { return data_.data() + static_cast<size_t>(which) * problem_.batch_output_floats(); }
    Failure failure() const { return failure_of_case(problem_, data_); }
    // wanted(row, column) for every element of a matrix that is set to x, with all others unchanged.
    template <class Wanted>
    void expect_everywhere(int which, float x, const Wanted& wanted) {
        for (int64_t i = 0; i < 2 * dim_; ++i) {
            const float before = std::exchange(matrix(which)[i], x);
            EXPECT_EQ(failure(), wanted(i / dim_, i % dim_)) << "QKV"[which] << " " << i;
            matrix(which)[i] = before;
        }
    }
    static Failure high_scores(int64_t row, const char* scores) {
        return bad_data("batch 0, Q, row " + std::to_string(row) + ": scores up to " + scores +
                        " (sum|q| * max|K|), need at most 8.50705917e+37");
    }
};

TEST_P(DomainOfDim, NamesEveryPlaceOfANumberThatIsNotFinite) {
    for (const auto& [number, text] : {std::pair{kNan, "nan"}, {kInf, "inf"}, {-kInf, "-inf"}})
        for (const int which : {0, 1, 2})
            expect_everywhere(which, number, [&, what = text](int64_t row, int64_t column) {
                return bad_data("batch 0, " + std::string(1, "QKV"[which]) + ", row " + std::to_string(row) +
                                ", column " + std::to_string(column) + ": " + what + ", need a finite number");
            });
}

TEST_P(DomainOfDim, OneLargeNumberInAnyColumnReachesTheLimit) {
    const auto accepted = [](int64_t, int64_t) { return Failure{}; };
    matrix(1)[0] = 0x1p63f;
    expect_everywhere(0, -0x1p63f, accepted);
    expect_everywhere(0, above(0x1p63f), [](int64_t row, int64_t) { return high_scores(row, "8.50706019e+37"); });
    matrix(1)[0] = 0.0f;
    matrix(0)[dim_] = 0x1p63f;
    expect_everywhere(1, -0x1p63f, accepted);
    expect_everywhere(1, above(0x1p63f), [](int64_t, int64_t) { return high_scores(1, "8.50706019e+37"); });
    expect_everywhere(2, -0x1p51f, accepted);
    expect_everywhere(2, above(0x1p51f), [](int64_t, int64_t) {
        return bad_data("batch 0, V: N * max|V| = 4.50360016e+15, need at most 4.50359963e+15");
    });
}

TEST_P(DomainOfDim, EveryColumnOfARowCountsOnce) {
    std::fill(matrix(0) + dim_, matrix(0) + 2 * dim_, -1.0f); // sum|q| = d
    auto largest = static_cast<float>(kScoreLimit / static_cast<double>(dim_));
    if (double{largest} * static_cast<double>(dim_) > kScoreLimit) largest = std::nextafter(largest, 0.0f);
    matrix(1)[dim_] = largest;
    EXPECT_EQ(failure(), Failure{});
    matrix(1)[dim_] = above(largest);
    EXPECT_EQ(failure().code, ExitCode::bad_data);
}

INSTANTIATE_TEST_SUITE_P(Dims, DomainOfDim, testing::Values(1, 7, 8, 9, 31, 32, 33, 256));

// Two queries and two keys of one column in a batch of heads.
class DomainOfGradients : public ::testing::Test {
protected:
    DomainOfGradients() { problem_.operation = &kBackward; }

    void fill(float q, float k, float v, float gradient) {
        data_.clear();
        for (const auto& [x, heads] :
             {std::pair{q, problem_.heads}, {k, problem_.kv_heads}, {v, problem_.kv_heads}, {gradient, problem_.heads}})
            data_.insert(data_.end(), static_cast<size_t>(2 * heads * problem_.dim), x);
    }
    Failure failure(int64_t rows_at_once = 1 << 20) const { return failure_of_case(problem_, data_, rows_at_once); }
    void expect_the_limit_at(float q, float k, float v, float gradient, const std::string& what) {
        fill(q, k, v, gradient);
        EXPECT_EQ(failure(), Failure{}) << what;
        fill(q, k, v, above(gradient));
        EXPECT_EQ(failure(), bad_data("batch 0, dO" + what + " = 2.12676505e+37, need at most 2.12676479e+37"));
    }

    Problem problem_{1, 2, 1};
    std::vector<float> data_;
};

TEST_F(DomainOfGradients, MayReachEveryLimitButNotPassIt) {
    ASSERT_EQ(kGradientLimit, 0x1p124);
    expect_the_limit_at(0, 0, 0x1p24f, 0x1p100f, ", row 0: sum|dO| * max|V|");
    expect_the_limit_at(0, 0x1p30f, 0x1p24f, 0x1p70f, ", row 0: sum|dO| * max|V| * max|K|");
    expect_the_limit_at(0x1p30f, 0, 0x1p23f, 0x1p70f, ", row 0: sum|dO| * max|V| * N_q * max|Q|");
    expect_the_limit_at(0, 0, 0, 0x1p123f, ": N_q * max|dO|");
}

TEST_F(DomainOfGradients, CountAScaleAboveOne) {
    problem_.scale = 4;
    expect_the_limit_at(0, 0x1p28f, 0x1p24f, 0x1p70f, ", row 0: sum|dO| * max|V| * max|K| * scale");
    expect_the_limit_at(0x1p28f, 0, 0x1p23f, 0x1p70f, ", row 0: sum|dO| * max|V| * N_q * max|Q| * scale");
    problem_.scale = 0.25;
    expect_the_limit_at(0, 0x1p30f, 0x1p24f, 0x1p70f, ", row 0: sum|dO| * max|V| * max|K|");
}

TEST_F(DomainOfGradients, AddsUpTheColumnsOfARow) {
    problem_.dim = 4;
    expect_the_limit_at(0, 0, 0x1p24f, 0x1p98f, ", row 0: sum|dO| * max|V|");
}

TEST_F(DomainOfGradients, CountsTheRowsOfAllHeadsThatShareKeys) {
    problem_.heads = 8;
    problem_.kv_heads = 2;
    expect_the_limit_at(0, 0, 0, 0x1p121f, ": N_q * heads / key-value heads * max|dO|");
    expect_the_limit_at(0x1p30f, 0, 0x1p21f, 0x1p70f,
                        ", head 0, row 0: sum|dO| * max|V| * N_q * heads / key-value heads * max|Q|");
}

TEST_F(DomainOfGradients, AreJoinedFromStretches) {
    fill(1, 1, 0x1p24f, 1);
    data_.back() = 0x1p101f;
    for (const int64_t rows : {1, 2, 3, 5, 8})
        EXPECT_EQ(failure(rows),
                  bad_data("batch 0, dO, row 1: sum|dO| * max|V| = 4.25352959e+37, need at most 2.12676479e+37"))
            << rows;
    fill(1, 1, 0, 1);
    data_.back() = 0x1p124f;
    for (const int64_t rows : {1, 2, 3, 5, 7, 8})
        EXPECT_EQ(failure(rows), bad_data("batch 0, dO: N_q * max|dO| = 4.25352959e+37, need at most 2.12676479e+37"))
            << rows;
}

TEST_F(DomainOfGradients, MustBeFinite) {
    for (const float x : {kNan, kInf, -kInf}) {
        fill(1, 1, 1, 1);
        data_.back() = x;
        EXPECT_EQ(failure().code, ExitCode::bad_data) << x;
    }
    EXPECT_EQ(failure().message, "a.in: batch 0, dO, row 1, column 0: -inf, need a finite number");
}

TEST_F(DomainOfGradients, LeaveForwardsLimitsInPlace) {
    fill(0x1p63f, 0x1p63f, 0, 0);
    EXPECT_EQ(failure(), Failure{});
    fill(0x1p63f, above(0x1p63f), 0, 0);
    EXPECT_EQ(failure().message, "a.in: batch 0, Q, row 0: scores up to 8.50706019e+37 (sum|q| * max|K|), need at most "
                                 "8.50705917e+37");
}

TEST(DomainOfALargeCase, NamesPlacesBeyond32Bits) {
    const Problem problem{6, 1 << 29, 1};
    const int64_t values_of_last_batch = 17 * problem.queries; // row 9126805504 of the file
    const int64_t row = 500000000;
    EXPECT_EQ(
        failure_of([&] { DomainCheck("a.in", problem, kF32.domain).check(values_of_last_batch + row, 1, &kNan); }),
        (Failure{ExitCode::bad_data, "a.in: batch 5, V, row 500000000, column 0: nan, need a finite number"}));
}

} // namespace
} // namespace hw4
