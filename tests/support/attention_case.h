// A case in memory with its expected output, for tests that compare bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "src/contracts/contract.h"
#include "src/contracts/f32/forward.h"
#include "src/io/case_values.h"
#include "src/problem/words.h"
#include "tests/support/expected.h"
#include "tests/support/settings.h"

namespace hw4 {

struct AttentionCase {
    Problem problem;
    const Contract* contract;
    std::string name;
    std::vector<float> qkv;
    std::vector<float> expected;           // bytes of the reference (expected.h)
    std::vector<RowStatistics> statistics; // of every row

    AttentionCase(const Problem& s, const Distribution& values, uint64_t seed, const Contract& under = kF32)
        : AttentionCase(s, spelling_of(values) + ", seed " + std::to_string(seed), under) {
        fill_case_values({s, values, seed}, 0, qkv.size(), qkv.data());
        compute_expected();
    }

    // A running sum ends as -0, and the total before it is -0, ahead of a tile that needs padding: the padding turns
    // one of the two into +0.
    static AttentionCase with_negative_zeros(const Contract& under = kF32) {
        constexpr int64_t n = 2 * kSegmentKeys + 1;
        AttentionCase test({1, n, 1}, "negative zeros", under);
        float* q = test.qkv.data();
        float* k = q + n;
        float* v = k + n;
        std::fill(q, q + n, 1.0f);
        std::fill(k + kSegmentKeys, k + 2 * kSegmentKeys, 60.0f); // raises the reference: the total underflows to -0
        v[0] = v[n - 1] = -0x1p-149f;
        test.compute_expected();
        return test;
    }

    // fill_batch(qkv, batch) writes the batch's three matrices; elements that it skips are zero.
    template <class FillBatch>
    static AttentionCase filled(const Problem& s, const std::string& values, FillBatch fill_batch,
                                const Contract& under = kF32) {
        AttentionCase test(s, values, under);
        for (int64_t b = 0; b < s.batches; ++b)
            fill_batch(test.qkv.data() + static_cast<size_t>(b) * s.batch_input_floats(), b);
        test.compute_expected();
        return test;
    }

private:
    AttentionCase(const Problem& s, const std::string& values, const Contract& under)
        : problem(s), contract(&under), name(sizes_of(s).first + " " + sizes_of(s).second + ", " + values),
          qkv(static_cast<size_t>(s.batches) * s.batch_input_floats()),
          expected(static_cast<size_t>(s.batches) * s.batch_output_floats()),
          statistics(static_cast<size_t>(s.output_rows())) {}

    // Batches are independent: a large case uses all processors, one reference each.
    void compute_expected() {
        std::atomic<int64_t> next{0};
        const auto take_batches = [&] {
            for (int64_t batch = next++; batch < problem.batches; batch = next++) {
                const auto at = static_cast<size_t>(batch);
                hw4::compute_expected(*contract, problem.of_batches(1), qkv.data() + at * problem.batch_input_floats(),
                                      expected.data() + at * problem.batch_output_floats(),
                                      statistics.data() + batch * problem.heads * problem.queries);
            }
        };
        constexpr double kWorthThreads = 1e8;
        const double products = static_cast<double>(problem.units()) * static_cast<double>(problem.queries) *
                                static_cast<double>(problem.keys) * static_cast<double>(problem.dim);
        const int64_t threads = std::min<int64_t>(reference_threads(), problem.batches);
        std::vector<std::thread> others;
        for (int64_t i = 1; products > kWorthThreads && i < threads; ++i) others.emplace_back(take_batches);
        take_batches();
        for (std::thread& other : others) other.join();
    }
};

// Under the contracts of digits: with d = 1 the factor of Q is above 1, and the largest numbers times it overflow
// float32; so do the largest keys times 21/16.
inline std::vector<AttentionCase> cases_of_the_largest_numbers(const Contract& contract) {
    constexpr float kMost = std::numeric_limits<float>::max();
    std::vector<AttentionCase> made;
    for (const int64_t dim : {1, 2})
        for (const bool of_keys : {false, true}) {
            const auto fill = [&](float* q, int64_t) {
                const auto count = static_cast<size_t>(70 * dim);
                float* const large = of_keys ? q + count : q;
                float* const small = of_keys ? q : q + count;
                for (size_t i = 0; i < count; ++i) {
                    large[i] = i % 3 == 0 ? kMost : i % 3 == 1 ? -kMost : kMost / 1.5f;
                    small[i] = (i % 2 == 0 ? 0.05f : -0.05f) / static_cast<float>(1 + i % 7);
                    q[2 * count + i] = static_cast<float>(i % 11) - 5;
                }
            };
            made.push_back(AttentionCase::filled({1, 70, dim}, of_keys ? "large K" : "large Q", fill, contract));
        }
    return made;
}

// Shared by every kernel under test: the reference takes longer than the kernels, so it is computed once. The problem
// is passed by value: the returned case keeps nothing of the caller's, and g++ 13 warns where it might.
inline const AttentionCase& reference_case(Problem problem, Distribution values, uint64_t seed,
                                           const Contract& contract = kF32) {
    using Key = std::tuple<std::string, std::string, uint64_t, const Contract*>;
    static std::map<Key, AttentionCase> cases;
    const Key key{sizes_of(problem).second, spelling_of(values), seed, &contract};
    const auto found = cases.find(key);
    if (found != cases.end()) return found->second;
    return cases.emplace(key, AttentionCase(problem, values, seed, contract)).first->second;
}

// Compares bytes, not values: == would take -0 for +0, and a NaN never equals itself.
inline testing::AssertionResult same_bytes(const std::vector<float>& expected, const std::vector<float>& got) {
    if (expected.size() != got.size())
        return testing::AssertionFailure() << expected.size() << " values expected, got " << got.size();
    for (size_t i = 0; i < got.size(); ++i) {
        if (bits_of(expected[i]) == bits_of(got[i])) continue;
        char text[160];
        std::snprintf(text, sizeof text, "value %zu: expected %.9g (%08x), got %.9g (%08x)", i, double{expected[i]},
                      bits_of(expected[i]), double{got[i]}, bits_of(got[i]));
        return testing::AssertionFailure() << text;
    }
    return testing::AssertionSuccess();
}

inline testing::AssertionResult same_statistics(const std::vector<RowStatistics>& expected,
                                                const std::vector<RowStatistics>& got) {
    const auto numbers = [](const std::vector<RowStatistics>& rows) {
        std::vector<float> list;
        for (const auto& [M, origin, l] : rows) list.insert(list.end(), {M, origin, l});
        return list;
    };
    return same_bytes(numbers(expected), numbers(got)) << " of M, origin and l, row by row";
}

// All kinds except those made for timing: normal, stray, sink and low.
constexpr CaseKind kAllKinds[] = {CaseKind::uniform,  CaseKind::equal,    CaseKind::negative, CaseKind::spread,
                                  CaseKind::denormal, CaseKind::dominant, CaseKind::vzero,    CaseKind::huge,
                                  CaseKind::fading,   CaseKind::climb,    CaseKind::brink,    CaseKind::threshold,
                                  CaseKind::digits};
constexpr int kKinds = static_cast<int>(std::size(kAllKinds));

// The kinds for timing, also with other parameters: rows that leave the range of M = 0 sometimes, often, always; on
// both sides of 2^18, where a kernel of fixed takes other code; beyond 2^21.
inline std::vector<Distribution> timed_distributions() {
    return {CaseKind::normal,        {CaseKind::normal, 3.5}, {CaseKind::normal, 6}, {CaseKind::normal, 30},
            {CaseKind::normal, 100}, {CaseKind::normal, 200}, CaseKind::stray,       {CaseKind::stray, 1e6},
            {CaseKind::sink, 0},     {CaseKind::sink, 0.5},   {CaseKind::sink, 1},   CaseKind::low};
}

// Two stray rows in the first problem; every row size of the kernels, full and partial.
inline std::vector<Problem> timed_problems() {
    return {{1, 540, 8}, {2, 33, 1}, {1, 129, 32}, {1, 65, 33}, {1, 130, 64}, {1, 97, 100}, {1, 127, 128}, {1, 1, 64}};
}

// Sizes at every limit: one, tiles, blocks of rows and segments with one less and one more, odd and round d.
inline std::vector<Problem> corner_problems() {
    return {{1, 1, 1},     {5, 1, 64},    {2, 2, 3},    {1, 31, 32},  {1, 32, 32},   {3, 33, 32},  {1, 100, 7},
            {1, 63, 48},   {1, 64, 40},   {1, 65, 96},  {2, 97, 128}, {1, 127, 64},  {1, 128, 32}, {1, 129, 64},
            {1, 129, 200}, {2, 150, 256}, {1, 255, 32}, {1, 256, 64}, {1, 257, 128}, {2, 700, 32}, {1, 700, 128},
            {1, 513, 100}, {1, 1025, 33}, {1, 600, 64}, {1, 2049, 5}};
}

// Ordinary rows, two kinds with some rows that have an origin, or rows that have another M: one of them by turns, all
// of them with HW4_SOAK.
inline std::vector<CaseKind> some_of_four(size_t turn) {
    const std::vector<CaseKind> four = {CaseKind::uniform, CaseKind::spread, CaseKind::brink, CaseKind::huge};
    return soaks() ? four : std::vector<CaseKind>{four[turn % 4]};
}

struct CornerCase {
    Problem problem;
    CaseKind kind;
};

// Every kind on every corner; without HW4_SOAK a quarter of the kinds on each large corner, and one on each of the
// largest.
inline std::vector<CornerCase> corner_cases() {
    constexpr int64_t kLarge = 5'000'000; // products
    constexpr int64_t kLargest = 20'000'000;
    const std::vector<Problem> corners = corner_problems();
    std::vector<CornerCase> list;
    for (size_t corner = 0; corner < corners.size(); ++corner)
        for (size_t kind = 0; kind < std::size(kAllKinds); ++kind) {
            const Problem& problem = corners[corner];
            const int64_t products = problem.batches * problem.queries * problem.keys * problem.dim;
            const size_t each = soaks() ? 1 : products > kLargest ? std::size(kAllKinds) : products > kLarge ? 4 : 1;
            if ((corner + kind) % each == 0) list.push_back({problem, kAllKinds[kind]});
        }
    return list;
}

} // namespace hw4
