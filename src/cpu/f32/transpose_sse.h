// The 4 x 4 transposition that both x86 vector types use for packing.
#pragma once

#include "src/contracts/f32/forward.h"
#include "src/cpu/x86_intrinsics.h"

namespace hw4::cpu {

// to[t][row] = from[row][t], 4 x 4.
HW4_INLINE void transpose4_sse(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    __m128 a = _mm_loadu_ps(from);
    __m128 b = _mm_loadu_ps(from + from_stride);
    __m128 c = _mm_loadu_ps(from + 2 * from_stride);
    __m128 d = _mm_loadu_ps(from + 3 * from_stride);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_stride, b);
    _mm_storeu_ps(to + 2 * to_stride, c);
    _mm_storeu_ps(to + 3 * to_stride, d);
}

} // namespace hw4::cpu
