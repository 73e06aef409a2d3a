// Whether the cases of mixed_rows.h can fail: no GPU needed.
#include "tests/support/mixed_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "src/contracts/contract.h"
#include "src/problem/domain.h"
#include "tests/support/subject.h"

namespace hw4 {
namespace {

// The row in the contract's order, but with a decision about the reference every so many keys.
std::vector<float> attend_deciding_every(int64_t decision_keys, const float* q, const float* k, const float* v,
                                         int64_t n, int64_t d) {
    const Scale scale = scale_for(d);
    Reference reference = empty_reference();
    Reference total_reference = empty_reference();
    float lanes[kSumLanes] = {};
    std::vector<float> o(static_cast<size_t>(d));
    std::vector<float> total(static_cast<size_t>(d));
    const auto score = [&](int64_t key) {
        float sum = 0.0f; // one product and zeros, in whatever order
        for (int64_t t = 0; t < d; ++t) sum = fused(q[t], k[key * d + t], sum);
        return sum;
    };
    for (int64_t first = 0; first < n; first += kKeyTile) {
        if (first % decision_keys == 0) {
            float largest = score(first);
            for (int64_t j = first; j < std::min(first + decision_keys, n); ++j) largest = larger(largest, score(j));
            if (!reference.covers(largest)) {
                const Reference raised = reference_at(largest, scale);
                const float alpha = rescale_factor(reference, raised, scale);
                for (float& lane : lanes) lane *= alpha;
                for (float& x : o) x *= alpha;
                reference = raised;
            }
        }
        float p[kKeyTile] = {};
        const int64_t end = std::min<int64_t>(first + kKeyTile, n);
        for (int64_t j = first; j < end; ++j) {
            p[j - first] = reference.weight(score(j), scale);
            for (int64_t x = 0; x < d; ++x)
                o[static_cast<size_t>(x)] = fused(p[j - first], v[j * d + x], o[static_cast<size_t>(x)]);
        }
        for (int g = 0; g < kSumLanes; ++g) lanes[g] += lane_share(p + g * kLaneKeys);
        if (end % kSegmentKeys != 0 && end < n) continue;
        const float alpha = rescale_factor(total_reference, reference, scale);
        for (size_t x = 0; x < o.size(); ++x) {
            total[x] = fused(total[x], alpha, o[x]);
            o[x] = 0.0f;
        }
        total_reference = reference;
    }
    const float inv = 1.0f / close_lanes(lanes);
    for (float& x : total) x = result(x, inv);
    return total;
}

// A row of each course, by the reference and by kernels that do something else.
class CourseRow {
public:
    static constexpr int64_t kKeys = 200;
    static constexpr int64_t kDim = 64;

    explicit CourseRow(size_t turn) : in_(3 * kKeys * kDim) {
        MixedRows({1, kKeys, kDim}, turn).fill_batch(in_.data(), 0);
        q_[turn % (kDim - 1)] = 1.0f;
    }

    std::vector<float> deciding_every(int64_t keys) const {
        return attend_deciding_every(keys, q_.data(), k(), v(), kKeys, kDim);
    }
    std::vector<float> unnoticed() const { return attend_unnoticed(q_.data(), k(), v(), kKeys, kDim); }

private:
    const float* k() const { return in_.data() + kKeys * kDim; }
    const float* v() const { return k() + kKeys * kDim; }

    std::vector<float> in_;
    std::vector<float> q_ = std::vector<float>(kDim);
};

// Whether M is not 0 somewhere, or a score is clamped.
bool moves_the_reference(const Course& course, Scale scale) {
    Reference reference = empty_reference();
    for (size_t first = 0; first < course.scores.size(); first += kKeyTile) {
        const float* tile = course.scores.data() + first;
        const float* end = course.scores.data() + std::min(first + kKeyTile, course.scores.size());
        const float largest = *std::max_element(tile, end);
        if (!reference.covers(largest)) reference = reference_at(largest, scale);
        if (reference.M != 0.0f || reference.origin != 0.0f || *std::min_element(tile, end) < reference.floor)
            return true;
    }
    return false;
}

TEST(MixedRows, OfACourseAreItsScores) {
    const AttentionCase test = mixed_rows({1, CourseRow::kKeys, CourseRow::kDim}, 4); // all rows take the course
    const std::vector<float> row = CourseRow(4).deciding_every(kKeyTile);
    for (int64_t i = 0; i < CourseRow::kKeys; ++i)
        EXPECT_TRUE(same_bytes(
            {test.expected.begin() + i * CourseRow::kDim, test.expected.begin() + (i + 1) * CourseRow::kDim}, row))
            << i;
}

// But where what M changes is drowned by other sums.
TEST(MixedRows, DifferFromAKernelThatDoesNotNotice) {
    const std::set<std::string> drowned = {"climbs by 20 a tile from -300", "-12, then 0 from tile 1",
                                           "-12, then 0 from tile 2", "-40, then 0 from tile 1",
                                           "-40, then 0 from tile 2"};
    const Courses courses(CourseRow::kKeys, CourseRow::kDim);
    for (size_t turn = 0; turn < courses.count(); ++turn) {
        const CourseRow row(turn);
        const std::string& name = courses.at(turn).name;
        const bool shows =
            moves_the_reference(courses.at(turn), scale_for(CourseRow::kDim)) && drowned.count(name) == 0;
        EXPECT_EQ(!same_bytes(row.deciding_every(kKeyTile), row.unnoticed()), shows) << name;
    }
}

TEST(MixedRows, DifferFromAKernelThatDecidesBySegments) {
    const Courses courses(CourseRow::kKeys, CourseRow::kDim);
    std::set<std::string> differing;
    for (size_t turn = 0; turn < courses.count(); ++turn) {
        const CourseRow row(turn);
        if (!same_bytes(row.deciding_every(kKeyTile), row.deciding_every(kSegmentKeys)))
            differing.insert(courses.at(turn).name);
    }
    for (const char* name :
         {"raises in halves 2 of segment 0", "raises in halves 3 of segment 0", "raises in halves 2 of segment 1",
          "raises in halves 3 of segment 1", "72 in tile 1, floats 1", "what raises 100 in tile 1, floats 1",
          "what raises -100 in tile 1, floats 1", "climbs by 50 a tile from -300"})
        EXPECT_EQ(differing.count(name), 1u) << name;
}

TEST(MixedRows, AreInTheDomain) {
    for (const Contract* contract : contracts_by_bytes())
        for (const AttentionCase& test : mixed_rows_cases(*contract))
            EXPECT_NO_THROW(
                DomainCheck("", test.problem, contract->domain).check(0, test.problem.input_rows(), test.qkv.data()))
                << test.name;
}

TEST(MixedRows, TakeEveryCourseInEveryWay) {
    const size_t courses = Courses(1, 1).count();
    EXPECT_EQ(Courses(193, 128).count(), courses);
    const auto turns = [](const Contract& contract) {
        int64_t sum = 0;
        for (const AttentionCase& test : mixed_rows_cases(contract))
            sum += test.problem.batches * test.problem.kv_heads;
        return static_cast<size_t>(sum);
    };
    EXPECT_GE(turns(kF32), kStrayings * courses);
    EXPECT_GE(turns(kFixed), courses);
}

} // namespace
} // namespace hw4
