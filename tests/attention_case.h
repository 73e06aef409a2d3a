// A case in memory with its expected output, for tests that compare bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../src/case_values.h"
#include "../src/contract.h"
#include "../src/sequential.h"

namespace hw4 {

struct AttentionCase {
    Shape shape;
    std::string name;
    std::vector<float> qkv;
    std::vector<float> expected; // by the sequential reference

    AttentionCase(const Shape& s, CaseKind kind, uint64_t seed)
        : shape(s), qkv(static_cast<size_t>(s.batches) * s.batch_input_floats()),
          expected(static_cast<size_t>(s.batches) * s.matrix_floats()) {
        name = "B " + std::to_string(s.batches) + ", N " + std::to_string(s.tokens) + ", d " + std::to_string(s.dim) +
               ", kind " + case_kind_names()[static_cast<size_t>(kind)] + ", seed " + std::to_string(seed);
        fill_case_values({s, kind, seed}, 0, qkv.size(), qkv.data());
        for (int64_t b = 0; b < s.batches; ++b) {
            const float* q = qkv.data() + static_cast<size_t>(b) * s.batch_input_floats();
            sequential_attention(q, q + s.matrix_floats(), q + 2 * s.matrix_floats(),
                                 expected.data() + static_cast<size_t>(b) * s.matrix_floats(), s.tokens, s.dim);
        }
    }
};

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
                                  CaseKind::fading,   CaseKind::climb};

// Sizes around every edge: one, tiles and segments with one less and one more, odd and the largest d.
inline std::vector<Shape> corner_shapes() {
    return {{1, 1, 1},    {5, 1, 64},    {2, 2, 3},     {1, 31, 32},   {1, 32, 32}, {3, 33, 32},
            {1, 100, 7},  {1, 1023, 64}, {1, 1024, 8},  {1, 1025, 33}, {1, 63, 48}, {1, 65, 96},
            {2, 97, 128}, {1, 129, 200}, {2, 150, 256}, {1, 2049, 5}};
}

} // namespace hw4
