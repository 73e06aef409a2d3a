// The intrinsics of x86, and helpers of all x86 kernels. Every file that uses intrinsics includes this header instead
// of the compiler's, which leaves unused inputs of AVX-512 instructions uninitialised: g++ 12 warns about them.
#pragma once

#include <cstdint>
#include <cstring>

#include "src/base/inline.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace hw4::cpu {

struct X86Words {
    // to[t][row] = from[row][t], 4 x 4 floats or integers.
    template <class T>
    static HW4_INLINE void transpose4(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
        static_assert(sizeof(T) == sizeof(int32_t));
        const auto row = [&](int64_t i) {
            return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
        };
        const auto put = [&](int64_t t, __m128i x) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + t * to_stride), x);
        };
        const __m128i low01 = _mm_unpacklo_epi32(row(0), row(1));
        const __m128i low23 = _mm_unpacklo_epi32(row(2), row(3));
        const __m128i high01 = _mm_unpackhi_epi32(row(0), row(1));
        const __m128i high23 = _mm_unpackhi_epi32(row(2), row(3));
        put(0, _mm_unpacklo_epi64(low01, low23));
        put(1, _mm_unpackhi_epi64(low01, low23));
        put(2, _mm_unpacklo_epi64(high01, high23));
        put(3, _mm_unpackhi_epi64(high01, high23));
    }
};

HW4_INLINE int32_t four_bytes(const uint8_t* from) {
    int32_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
}

} // namespace hw4::cpu
