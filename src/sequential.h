// The sequential references: seq.cpp has the contract f32, sequential_fixed.cpp the contract fixed.
#pragma once

#include <cstdint>

namespace hw4 {

// q, k, v, out: [n][d], row-major.
void sequential_attention(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d);
void sequential_fixed_attention(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d);

} // namespace hw4
