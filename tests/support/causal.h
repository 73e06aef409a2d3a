// Properties of the causal mask, as tests over a list of subjects: a row is the attention over the keys that it sees,
// which the reference computes without any mask.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/causal_case.h"
#include "tests/support/subject.h"

namespace hw4 {

class Causal : public testing::TestWithParam<Subject> {
protected:
    void SetUp() override {
        const std::string refusal = GetParam().why_not(causal_problem(1, 1, 32));
        if (!refusal.empty()) GTEST_SKIP() << refusal;
    }

    static bool in_floats() { return GetParam().contract == &kF32; }

    static CausalCase made(const Problem& problem, const Distribution& values) {
        CausalCase test(problem, values);
        if (!in_floats()) test.with_the_largest_first(*GetParam().contract);
        return test;
    }

    static std::vector<float> attend(const CausalCase& test) { return GetParam().attend(test.problem, test.qkv); }

    // Skips the case where the kernel does not take its head size.
    static void expect_definition(CausalCase test) {
        if (!GetParam().why_not(test.problem).empty()) return;
        EXPECT_TRUE(same_bytes(test.by_definition(*GetParam().contract), attend(test))) << test.name;
    }

    // `together` is the output of the whole case.
    static void expect_rows(CausalCase& whole, const std::vector<float>& together, int64_t first, int64_t end) {
        const int64_t dim = whole.problem.dim;
        const std::vector<float> wanted(together.begin() + first * dim, together.begin() + end * dim);
        EXPECT_TRUE(same_bytes(wanted, attend(whole.rows_between(first, end)))) << "rows " << first << " to " << end;
    }
};

// Either length is longer, by one, by a tile and more; rows that see one key, and rows that see none.
TEST_P(Causal, ARowIsTheAttentionOfTheKeysThatItSees) {
    using Shape = std::array<int64_t, 3>;
    for (const auto& [queries, keys, dim] :
         {Shape{1, 1, 1}, Shape{2, 2, 1}, Shape{31, 31, 33}, Shape{33, 33, 64}, Shape{63, 63, 1}, Shape{65, 65, 128},
          Shape{33, 33, 256}, Shape{130, 130, 20}, Shape{1, 130, 64}, Shape{5, 70, 33}, Shape{97, 161, 32},
          Shape{64, 65, 8}, Shape{65, 64, 8}, Shape{3, 1, 7}, Shape{70, 5, 33}, Shape{250, 66, 16}, Shape{66, 2, 5}})
        expect_definition(made(causal_problem(queries, keys, dim), CaseKind::uniform));
}

// Three more keys than queries: rows of one vector end in different tiles.
TEST_P(Causal, ARowIsThatOnValuesOfEveryKind) {
    std::vector<Distribution> kinds(std::begin(kAllKinds), std::end(kAllKinds));
    for (const Distribution& timed : timed_distributions()) kinds.push_back(timed);
    for (const Distribution& values : kinds) expect_definition(made(causal_problem(75, 78, 12), values));
}

TEST_P(Causal, HeadsThatShareKeysEachSeeTheirOwn) {
    for (const int64_t keys : {70, 90, 20})
        expect_definition(made(with_heads(causal_problem(70, keys, 9), 2, 6, 2), CaseKind::spread));
}

// Later keys do not matter, nor whether queries are computed at once, one by one or in groups.
TEST_P(Causal, EveryPrefixIsThatOfTheWhole) {
    CausalCase whole = made(causal_problem(150, 150, 8), CaseKind::spread);
    const std::vector<float> together = attend(whole);
    for (int64_t end = 1; end <= 150; ++end) {
        expect_rows(whole, together, 0, end);
        expect_rows(whole, together, end - 1, end);
    }
}

// A sequence in chunks of rows, as text is generated: fewer queries than keys. Of small chunks every 13th is compared.
TEST_P(Causal, ASequenceInChunksIsTheWholeOne) {
    constexpr int64_t kTokens = 1030;
    CausalCase whole = made(causal_problem(kTokens, kTokens, 4), CaseKind::spread);
    const std::vector<float> together = attend(whole);
    for (const int64_t rows : {1, 7, 64, 1000})
        for (int64_t first = 0; first < kTokens; first += rows < 64 ? 13 * rows : rows)
            expect_rows(whole, together, first, std::min(first + rows, kTokens));
}

// A decoding step of a server for many users: one query each, over its own keys.
TEST_P(Causal, ARowAloneIsThatRowInABatchOf64) {
    for (const int64_t dim : {64, 33}) {
        Problem problem = causal_problem(1, 200, dim).of_batches(64);
        problem.heads = 2;
        const CausalCase many = made(problem, CaseKind::spread);
        const std::vector<float> together = attend(many);
        const auto in = static_cast<int64_t>(problem.batch_input_floats());
        const auto out = static_cast<int64_t>(problem.batch_output_floats());
        for (const int64_t batch : {0, 1, 31, 32, 62, 63}) {
            CausalCase alone(problem.of_batches(1), CaseKind::uniform);
            std::copy_n(many.qkv.begin() + batch * in, in, alone.qkv.begin());
            const std::vector<float> wanted(together.begin() + batch * out, together.begin() + (batch + 1) * out);
            EXPECT_TRUE(same_bytes(wanted, attend(alone))) << "d " << dim << ", batch " << batch;
        }
    }
}

class FixedCausal : public Causal {
protected:
    static int64_t tile() { return tile_keys_of(*GetParam().contract); }
};

// Values are not adjusted: a tile's scale comes from all its keys, so prefixes agree where they end with a tile.
TEST_P(FixedCausal, PrefixesThatEndWithATileAreThoseOfTheWhole) {
    const int64_t tokens = 7 * tile() + 20;
    CausalCase whole(causal_problem(tokens, tokens, 8), CaseKind::uniform);
    const std::vector<float> together = attend(whole);
    for (int64_t end = tile(); end <= tokens; end += tile()) {
        expect_rows(whole, together, 0, end);
        expect_rows(whole, together, end - 1, end);
        expect_rows(whole, together, end - tile(), end);
    }
    expect_rows(whole, together, tokens - 20, tokens);
}

// Scores so small that they are cut off, while no score is low enough to have no weight, and columns of V that are
// zero: half a unit too much for one tile shows.
TEST_P(FixedCausal, ATileOfWhichARowSeesNothingIsNotCounted) {
    const int64_t queries = tile() + 11;
    const int64_t keys = tile() + 14;
    CausalCase test(causal_problem(queries, keys, 12), CaseKind::uniform);
    for (int64_t i = 0; i < queries * 12; ++i) test.in(0).at[i] *= 1e-20f;
    for (int64_t i = 0; i < keys * 12; ++i)
        if (i % 12 > 0) test.in(2).at[i] = 0.0f;
    expect_definition(test.with_the_largest_first(*GetParam().contract));
}

// The hidden key has the largest numbers of the tile, and its score is so low that it has no weight where it is seen: a
// row that does not see it equals the attention over its visible keys and this one.
TEST_P(FixedCausal, AHiddenKeyCountsForTheScaleOfItsTile) {
    constexpr int64_t kTokens = 60;
    constexpr int64_t kDim = 16;
    CausalCase test(causal_problem(kTokens, kTokens, kDim), CaseKind::uniform);
    float* const q = test.in(0).at;
    float* const k = test.in(1).at;
    float* const v = test.in(2).at;
    for (int64_t i = 0; i < kTokens; ++i) {
        q[i * kDim + kDim - 1] = 1.0f;
        k[i * kDim + kDim - 1] = 0.0f;
    }
    k[kTokens * kDim - 1] = -3000.0f;
    v[kTokens * kDim - 1] = 900.0f;
    const std::vector<float> out = attend(test);
    for (int64_t i = 0; i + 1 < kTokens; ++i) {
        const auto with_the_last = [&](const float* matrix) {
            std::vector<float> rows(matrix, matrix + (i + 1) * kDim);
            rows.insert(rows.end(), matrix + (kTokens - 1) * kDim, matrix + kTokens * kDim);
            return rows;
        };
        const std::vector<float> keys = with_the_last(k);
        const std::vector<float> values = with_the_last(v);
        std::vector<float> wanted(kDim, NAN);
        GetParam().contract->find(kForward)->reference(
            {1, i + 2, kDim, {q + i * kDim, keys.data(), values.data()}, {wanted.data()}});
        const std::vector<float> row(out.begin() + i * kDim, out.begin() + (i + 1) * kDim);
        EXPECT_TRUE(same_bytes(wanted, row)) << i;
    }
}

} // namespace hw4
