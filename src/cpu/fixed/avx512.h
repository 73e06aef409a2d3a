// 512-bit vectors for attention_simd.h, for the kernels with dot products of bytes and with matrix products.
#pragma once

#include "src/contracts/fixed/forward.h"
#include "src/cpu/fixed/exp2_segments.h"
#include "src/cpu/x86_intrinsics.h"

namespace hw4::cpu {

struct Avx512Floats {
    __m512 x;

    Avx512Floats() = default;
    HW4_INLINE Avx512Floats(__m512 value) : x(value) {}
    HW4_INLINE explicit Avx512Floats(float value) : x(_mm512_set1_ps(value)) {}
    static HW4_INLINE Avx512Floats load(const float* from) { return _mm512_load_ps(from); }
    static HW4_INLINE Avx512Floats load_anywhere(const float* from) { return _mm512_loadu_ps(from); }
    HW4_INLINE void store(float* to) const { _mm512_store_ps(to, x); }
};

struct Avx512Ints {
    __m512i x;

    Avx512Ints() = default;
    HW4_INLINE Avx512Ints(__m512i value) : x(value) {}
    HW4_INLINE explicit Avx512Ints(int32_t value) : x(_mm512_set1_epi32(value)) {}
    static HW4_INLINE Avx512Ints load(const int32_t* from) { return _mm512_load_si512(from); }
    HW4_INLINE void store(int32_t* to) const { _mm512_store_si512(to, x); }
    template <int kBits>
    HW4_INLINE Avx512Ints shifted_left() const {
        return _mm512_slli_epi32(x, kBits);
    }
    template <int kBits>
    HW4_INLINE Avx512Ints shifted_right() const {
        return _mm512_srai_epi32(x, kBits);
    }
    HW4_INLINE Avx512Ints shifted_left(Avx512Ints bits) const { return _mm512_sllv_epi32(x, bits.x); }
    HW4_INLINE Avx512Ints shifted_right(Avx512Ints bits) const { return _mm512_srav_epi32(x, bits.x); }
    HW4_INLINE Avx512Floats as_float() const { return _mm512_castsi512_ps(x); }
};

HW4_INLINE Avx512Floats operator+(Avx512Floats a, Avx512Floats b) { return _mm512_add_ps(a.x, b.x); }
HW4_INLINE Avx512Floats operator-(Avx512Floats a, Avx512Floats b) { return _mm512_sub_ps(a.x, b.x); }
HW4_INLINE Avx512Floats operator*(Avx512Floats a, Avx512Floats b) { return _mm512_mul_ps(a.x, b.x); }
HW4_INLINE Avx512Floats fused(Avx512Floats a, Avx512Floats b, Avx512Floats c) { return _mm512_fmadd_ps(a.x, b.x, c.x); }
HW4_INLINE Avx512Floats larger(Avx512Floats a, Avx512Floats b) { return _mm512_max_ps(a.x, b.x); }
HW4_INLINE bool any_above(Avx512Floats a, Avx512Floats b) { return _mm512_cmp_ps_mask(a.x, b.x, _CMP_GT_OQ) != 0; }

HW4_INLINE Avx512Ints operator+(Avx512Ints a, Avx512Ints b) { return _mm512_add_epi32(a.x, b.x); }
HW4_INLINE Avx512Ints operator-(Avx512Ints a, Avx512Ints b) { return _mm512_sub_epi32(a.x, b.x); }
HW4_INLINE Avx512Ints operator&(Avx512Ints a, Avx512Ints b) { return _mm512_and_si512(a.x, b.x); }
HW4_INLINE Avx512Ints larger(Avx512Ints a, Avx512Ints b) { return _mm512_max_epi32(a.x, b.x); }
HW4_INLINE Avx512Ints smaller(Avx512Ints a, Avx512Ints b) { return _mm512_min_epi32(a.x, b.x); }
HW4_INLINE bool any_positive(Avx512Ints a) { return _mm512_cmpgt_epi32_mask(a.x, _mm512_setzero_si512()) != 0; }

HW4_INLINE Avx512Floats to_float(Avx512Ints a) { return _mm512_cvtepi32_ps(a.x); }
HW4_INLINE Avx512Ints nearest(Avx512Floats a) { return _mm512_cvtps_epi32(a.x); }
HW4_INLINE Avx512Floats with_fraction_of(Avx512Ints bits) {
    const __m512i one = _mm512_castps_si512(_mm512_set1_ps(1.0f));
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(bits.x, _mm512_set1_epi32(0x7fffff), one, 0xea));
}
HW4_INLINE Avx512Floats with_exponent_of(Avx512Ints bits) {
    return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32(0x7fffff), bits.x));
}

struct Avx512Machine : X86Words {
    using F = Avx512Floats;
    using I = Avx512Ints;
    struct Session {};
    static constexpr int kWidth = 16;

    // The table's entries at these indices.
    static HW4_INLINE Avx512Ints gathered(const uint32_t* table, Avx512Ints at) {
        return _mm512_i32gather_epi32(at.x, table, sizeof(int32_t));
    }

    // A gather loads sixteen lanes one after the other; segments are in two registers.
    static constexpr bool kExp2BySegments = true;
    static HW4_INLINE Avx512Floats coefficient(int i, Avx512Ints bits) {
        const float* const from = kExp2Coefficients.of[i];
        const __m512i segment = _mm512_srli_epi32(bits.x, kSegmentBits); // its lowest five bits count
        return _mm512_permutex2var_ps(_mm512_load_ps(from), segment, _mm512_load_ps(from + kExp2Segments / 2));
    }
    static HW4_INLINE Avx512Floats within_segment(Avx512Ints bits) {
        const __m512i one = _mm512_castps_si512(_mm512_set1_ps(1.0f));
        const __m512i mask = _mm512_set1_epi32((1 << kSegmentBits) - 1);
        return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(bits.x, mask, one, 0xea));
    }
    static HW4_INLINE Avx512Floats with_fraction(Avx512Floats y, Avx512Ints bits) {
        const __m512i fraction = _mm512_set1_epi32(0x7fffff); // not the first operand, which the result overwrites
        return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(y.x), bits.x, fraction, 0xe4));
    }

    // Bits of a where the mask has ones, of b elsewhere.
    static HW4_INLINE __m512i select(__m512i mask, __m512i a, __m512i b) {
        return _mm512_ternarylogic_epi32(mask, a, b, 0xca);
    }

    // a with the bytes of b, in their order, where the mask has ones.
    static HW4_INLINE __m512i merged(__m512i a, __mmask64 mask, __m512i b, __m512i order) {
        return _mm512_mask_shuffle_epi8(a, mask, b, order);
    }

    // The bytes of four words per lane, by digit, highest first. Merges words by halves, the first with the third, and
    // then by bytes: one instruction each.
    template <int kDigits>
    static HW4_INLINE void bytes_of_four(const Avx512Ints* w, __m512i (&digit)[kDigits]) {
        constexpr __mmask64 kUpperHalves = 0xcccccccccccccccc;
        constexpr __mmask64 kOddBytes = 0xaaaaaaaaaaaaaaaa;
        const __m512i halves = _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302); // in turned order
        const __m512i bytes = _mm512_set4_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001);
        const __m512i low02 = merged(w[0].x, kUpperHalves, w[2].x, halves);
        const __m512i low13 = merged(w[1].x, kUpperHalves, w[3].x, halves);
        digit[kDigits - 1] = merged(low02, kOddBytes, low13, bytes);
        digit[kDigits - 2] = merged(low13, ~kOddBytes, low02, bytes);
        if constexpr (kDigits == 3) {
            const __m512i high02 = merged(w[2].x, ~kUpperHalves, w[0].x, halves);
            const __m512i high13 = merged(w[3].x, ~kUpperHalves, w[1].x, halves);
            digit[0] = merged(high02, kOddBytes, high13, bytes);
        }
    }
};

} // namespace hw4::cpu
