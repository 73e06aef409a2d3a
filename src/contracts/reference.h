// The sequential references, one thread and plain loops, of each contract.
#pragma once

#include <cstdint>

#include "src/contracts/contract.h"

namespace hw4 {

// q, k, v, out: [n][d], row-major.
void sequential_attention(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d);
void sequential_fixed_attention(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d);

inline void sequential_attention(Arithmetic arithmetic, const float* q, const float* k, const float* v, float* out,
                                 int64_t n, int64_t d) {
    switch (arithmetic) {
    case Arithmetic::f32: return sequential_attention(q, k, v, out, n, d);
    case Arithmetic::fixed: return sequential_fixed_attention(q, k, v, out, n, d);
    }
}

} // namespace hw4
