// Properties of a window, as tests over a list of subjects: independent loops compute a row from the keys that it sees,
// without knowing of masks; where the row's first key begins a segment, the reference without a mask computes it too.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/causal_case.h"
#include "tests/support/subject.h"

namespace hw4 {

inline Problem with_window(Problem problem, int64_t window, double scale = 0) {
    problem.window = window;
    problem.scale = scale;
    return problem;
}

// The attention of one query over the keys first to end - 1, with tiles and segments counted from key 0.
inline std::vector<float> row_by_loops(const float* q, const float* k, const float* v, int64_t first, int64_t end,
                                       int64_t dim, Scale scale) {
    const auto columns = static_cast<size_t>(dim);
    std::vector<float> total(columns);
    std::vector<float> o(columns);
    float lanes[kSumLanes] = {};
    Reference reference = empty_reference();
    Reference folded = reference;
    for (int64_t key = first; key < end;) {
        const int64_t tile = key / kKeyTile * kKeyTile;
        const int64_t stop = std::min(tile + kKeyTile, end);
        float s[kKeyTile] = {};
        for (int64_t j = key; j < stop; ++j)
            for (int64_t t = 0; t < dim;) {
                float chain = 0.0f;
                for (const int64_t last = std::min(t + kScoreColumns, dim); t < last; ++t)
                    chain = fused(q[t], k[j * dim + t], chain);
                s[j - tile] += chain;
            }
        const float largest = *std::max_element(s + (key - tile), s + (stop - tile));
        if (!reference.covers(largest)) {
            const Reference raised = reference_at(largest, scale);
            const float factor = rescale_factor(reference, raised, scale);
            for (float& x : lanes) x *= factor;
            for (float& x : o) x *= factor;
            reference = raised;
        }
        float p[kKeyTile] = {};
        for (int64_t j = key; j < stop; ++j) {
            p[j - tile] = reference.weight(s[j - tile], scale);
            for (size_t x = 0; x < columns; ++x)
                o[x] = fused(p[j - tile], v[static_cast<size_t>(j) * columns + x], o[x]);
        }
        for (size_t g = 0; g < kSumLanes; ++g) lanes[g] += lane_share(p + g * kLaneKeys);
        key = stop;
        if (key % kSegmentKeys != 0 && key != end) continue;
        const float factor = rescale_factor(folded, reference, scale);
        for (size_t x = 0; x < columns; ++x) total[x] = fused(total[x], factor, o[x]);
        std::fill(o.begin(), o.end(), 0.0f);
        folded = reference;
    }
    const float inverse = 1.0f / close_lanes(lanes);
    for (float& x : total) x = result(x, inverse);
    return total;
}

class Window : public testing::TestWithParam<Subject> {
protected:
    void SetUp() override {
        const std::string refusal = GetParam().why_not(with_window(causal_problem(1, 1, 32), 1));
        if (!refusal.empty()) GTEST_SKIP() << refusal;
    }

    static std::vector<float> by_loops(CausalCase& test) {
        const Problem& problem = test.problem;
        const Scale scale = scale_for(problem.dim, problem.scale);
        std::vector<float> out;
        for (int64_t unit = 0; unit < problem.units(); ++unit)
            for (int64_t query = 0; query < problem.queries; ++query) {
                const auto of = [&](size_t operand) {
                    return test.of(operand, unit / problem.heads, unit % problem.heads);
                };
                const int64_t end = query + 1 + problem.keys - problem.queries;
                const std::vector<float> row =
                    end < 1 ? std::vector<float>(static_cast<size_t>(problem.dim))
                            : row_by_loops(of(0) + query * problem.dim, of(1), of(2),
                                           std::max<int64_t>(end - problem.window, 0), end, problem.dim, scale);
                out.insert(out.end(), row.begin(), row.end());
            }
        return out;
    }

    // Skips the case where the kernel does not take its head size.
    static void expect_loops(const Problem& problem, const Distribution& values) {
        if (!GetParam().why_not(problem).empty()) return;
        CausalCase test(problem, values);
        EXPECT_TRUE(same_bytes(by_loops(test), GetParam().attend(problem, test.qkv))) << test.name;
    }
};

// Windows that begin anywhere in a tile and a segment, and in different tiles for the rows of a block; more keys than
// queries and fewer; windows as long as all keys, and longer.
TEST_P(Window, ARowIsTheAttentionOfTheKeysThatItSees) {
    using Shape = std::array<int64_t, 3>;
    for (const auto& [queries, keys, dim] :
         {Shape{1, 1, 1}, Shape{33, 33, 64}, Shape{130, 130, 20}, Shape{1, 1000, 64}, Shape{5, 300, 33},
          Shape{300, 300, 32}, Shape{200, 450, 128}, Shape{70, 5, 33}, Shape{150, 66, 16}, Shape{20, 130, 256}})
        for (const int64_t window : {1, 2, 31, 32, 33, 64, 65, 100, 200, 5000})
            expect_loops(with_window(causal_problem(queries, keys, dim), window), CaseKind::uniform);
}

// References that only a hidden score would raise, and rows with a low first tile.
TEST_P(Window, ARowIsThatOnValuesOfEveryKind) {
    std::vector<Distribution> kinds(std::begin(kAllKinds), std::end(kAllKinds));
    for (const Distribution& timed : timed_distributions()) kinds.push_back(timed);
    for (const Distribution& values : kinds)
        for (const int64_t window : {40, 90}) {
            expect_loops(with_window(causal_problem(150, 153, 12), window), values);
            expect_loops(with_window(causal_problem(2, 400, 64), window), values);
        }
}

TEST_P(Window, HeadsThatShareKeysAndAScale) {
    for (const int64_t keys : {70, 190, 20})
        for (const double scale : {0.0, 0.03, 2.5})
            expect_loops(with_window(with_heads(causal_problem(70, keys, 9), 2, 6, 2), 45, scale), CaseKind::spread);
}

// Compares with the reference without a mask, on the keys of the window alone.
TEST_P(Window, AWindowThatBeginsASegmentIsAProblemOfItsKeys) {
    for (const int64_t window : {1, 30, 64, 100}) {
        const int64_t keys = 3 * kSegmentKeys + window; // the last row's window begins after three segments
        const Problem problem = with_window(causal_problem(9, keys, 24), window);
        CausalCase test(problem, CaseKind::spread);
        const std::vector<float> out = GetParam().attend(problem, test.qkv);
        std::vector<float> wanted(24);
        const int64_t hidden = 3 * kSegmentKeys * problem.dim;
        f32_forward({1,
                     window,
                     problem.dim,
                     {test.of(0, 0, 0) + 8 * problem.dim, test.of(1, 0, 0) + hidden, test.of(2, 0, 0) + hidden},
                     {wanted.data()}});
        EXPECT_TRUE(same_bytes(wanted, {out.end() - problem.dim, out.end()})) << window;
    }
}

// Blocks of rows with windows that begin in other tiles than the row before; text generated in chunks.
TEST_P(Window, ASequenceInChunksIsTheWholeOne) {
    constexpr int64_t kTokens = 700;
    for (const int64_t window : {50, 260}) {
        CausalCase whole(with_window(causal_problem(kTokens, kTokens, 8), window), CaseKind::spread);
        const std::vector<float> together = GetParam().attend(whole.problem, whole.qkv);
        for (const int64_t rows : {1, 64, 256})
            for (int64_t first = 0; first < kTokens; first += rows == 1 ? 37 : rows) {
                const int64_t end = std::min(first + rows, kTokens);
                CausalCase chunk = whole.rows_between(first, end);
                const std::vector<float> wanted(together.begin() + first * 8, together.begin() + end * 8);
                EXPECT_TRUE(same_bytes(wanted, GetParam().attend(with_window(chunk.problem, window), chunk.qkv)))
                    << first << " to " << end;
            }
    }
}

} // namespace hw4
