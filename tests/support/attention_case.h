// A case in memory with its expected output, for tests that compare bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/contracts/f32/forward.h"
#include "src/contracts/reference.h"
#include "src/io/case_values.h"

namespace hw4 {

struct AttentionCase {
    Shape shape;
    Arithmetic arithmetic;
    std::string name;
    std::vector<float> qkv;
    std::vector<float> expected; // by the sequential reference

    AttentionCase(const Shape& s, CaseKind kind, uint64_t seed, Arithmetic contract = Arithmetic::f32)
        : AttentionCase(s, case_kind_names()[static_cast<size_t>(kind)] + ", seed " + std::to_string(seed), contract) {
        fill_case_values({s, kind, seed}, 0, qkv.size(), qkv.data());
        compute_expected();
    }

    // A running sum that ends as -0, on top of a total that is -0, before a tile that has to be padded: the padding
    // turns one of the two into +0.
    static AttentionCase with_negative_zeros(Arithmetic contract = Arithmetic::f32) {
        constexpr int64_t n = 2 * kSegmentKeys + 1;
        AttentionCase test({1, n, 1}, "negative zeros", contract);
        float* q = test.qkv.data();
        float* k = q + n;
        float* v = k + n;
        std::fill(q, q + n, 1.0f);
        std::fill(k + kSegmentKeys, k + 2 * kSegmentKeys, 60.0f); // raises the reference: the total sinks to -0
        v[0] = v[n - 1] = -0x1p-149f;
        test.compute_expected();
        return test;
    }

    // fill_batch(qkv, batch) writes the batch's three matrices; what it leaves is zero.
    template <class FillBatch>
    static AttentionCase filled(const Shape& s, const std::string& values, FillBatch fill_batch,
                                Arithmetic contract = Arithmetic::f32) {
        AttentionCase test(s, values, contract);
        for (int64_t b = 0; b < s.batches; ++b)
            fill_batch(test.qkv.data() + static_cast<size_t>(b) * s.batch_input_floats(), b);
        test.compute_expected();
        return test;
    }

private:
    AttentionCase(const Shape& s, const std::string& values, Arithmetic contract)
        : shape(s), arithmetic(contract), name("B " + std::to_string(s.batches) + ", N " + std::to_string(s.tokens) +
                                               ", d " + std::to_string(s.dim) + ", " + values),
          qkv(static_cast<size_t>(s.batches) * s.batch_input_floats()),
          expected(static_cast<size_t>(s.batches) * s.matrix_floats()) {}

    void compute_expected() {
        for (int64_t b = 0; b < shape.batches; ++b) {
            const float* q = qkv.data() + static_cast<size_t>(b) * shape.batch_input_floats();
            sequential_attention(arithmetic, q, q + shape.matrix_floats(), q + 2 * shape.matrix_floats(),
                                 expected.data() + static_cast<size_t>(b) * shape.matrix_floats(), shape.tokens,
                                 shape.dim);
        }
    }
};

// The same case for every kernel that is tested with it: the reference, which takes longer than they, is computed once.
// The shape by value: what is returned refers to nothing of the caller's, and g++ 13 warns where it might.
inline const AttentionCase& reference_case(Shape shape, CaseKind kind, uint64_t seed,
                                           Arithmetic arithmetic = Arithmetic::f32) {
    using Key = std::tuple<int64_t, int64_t, int64_t, CaseKind, uint64_t, Arithmetic>;
    static std::map<Key, AttentionCase> cases;
    const Key key{shape.batches, shape.tokens, shape.dim, kind, seed, arithmetic};
    const auto found = cases.find(key);
    if (found != cases.end()) return found->second;
    return cases.emplace(key, AttentionCase(shape, kind, seed, arithmetic)).first->second;
}

// Bytes, not values: == would take -0 for +0 and never take a NaN for itself.
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

constexpr CaseKind kAllKinds[] = {CaseKind::uniform,  CaseKind::equal,    CaseKind::negative, CaseKind::spread,
                                  CaseKind::denormal, CaseKind::dominant, CaseKind::vzero,    CaseKind::huge,
                                  CaseKind::fading,   CaseKind::climb,    CaseKind::brink,    CaseKind::threshold,
                                  CaseKind::digits};
constexpr int kKinds = static_cast<int>(std::size(kAllKinds));

// Sizes around every edge: one, tiles, blocks of rows and segments with one less and one more, odd and whole d.
inline std::vector<Shape> corner_shapes() {
    return {{1, 1, 1},     {5, 1, 64},    {2, 2, 3},    {1, 31, 32},  {1, 32, 32},   {3, 33, 32},  {1, 100, 7},
            {1, 63, 48},   {1, 64, 40},   {1, 65, 96},  {2, 97, 128}, {1, 127, 64},  {1, 128, 32}, {1, 129, 64},
            {1, 129, 200}, {2, 150, 256}, {1, 255, 32}, {1, 256, 64}, {1, 257, 128}, {2, 700, 32}, {1, 700, 128},
            {1, 513, 100}, {1, 1025, 33}, {1, 600, 64}, {1, 2049, 5}};
}

} // namespace hw4
