// 512-bit vectors for attention_tiles.h.
#pragma once

#include "src/cpu/fixed/avx512.h"

namespace hw4::cpu {

HW4_INLINE Avx512Floats operator/(Avx512Floats a, Avx512Floats b) { return _mm512_div_ps(a.x, b.x); }
HW4_INLINE Avx512Floats add_exponent_above(Avx512Floats least, Avx512Floats x, Avx512Floats y, Avx512Floats t) {
    const __mmask16 above = _mm512_cmp_ps_mask(x.x, least.x, _CMP_GT_OQ);
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(t.x), 23);
    return _mm512_castsi512_ps(_mm512_maskz_add_epi32(above, _mm512_castps_si512(y.x), exponent));
}

struct Avx512Bf16Machine : Avx512Machine {
    // To nearest even, as a float. No NaN comes here.
    static HW4_INLINE Avx512Floats rounded(Avx512Floats a) {
        const __m512i bits = _mm512_castps_si512(a.x);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i carried = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32(0xffff), carried));
    }

    // The bf16 numbers that these are.
    static HW4_INLINE void store_high(Avx512Floats a, uint16_t* to) {
        const __m512i high = _mm512_srli_epi32(_mm512_castps_si512(a.x), 16);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(high));
    }

    // Both rounded to nearest, halves away from zero, `low` in the lower half of each word.
    static HW4_INLINE Avx512Ints pair(Avx512Floats low, Avx512Floats high) {
        const __m512i half = _mm512_set1_epi32(0x8000);
        const __m512i lower = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(low.x), half), 16);
        const __m512i upper = _mm512_add_epi32(_mm512_castps_si512(high.x), half);
        return select(_mm512_set1_epi32(0xffff), lower, upper);
    }
};

} // namespace hw4::cpu
