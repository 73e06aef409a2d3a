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
    // 16 bf16 numbers as floats.
    static HW4_INLINE Avx512Floats widened(const uint16_t* from) {
        const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
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
