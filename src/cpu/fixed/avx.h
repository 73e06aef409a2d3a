// 256-bit vectors for attention_simd.h, for the kernels with and without dot products of bytes.
#pragma once

#include "src/contracts/fixed/forward.h"
#include "src/cpu/x86_intrinsics.h"

namespace hw4::cpu {

struct AvxFloats {
    __m256 x;

    AvxFloats() = default;
    HW4_INLINE AvxFloats(__m256 value) : x(value) {}
    HW4_INLINE explicit AvxFloats(float value) : x(_mm256_set1_ps(value)) {}
    static HW4_INLINE AvxFloats load(const float* from) { return _mm256_load_ps(from); }
    static HW4_INLINE AvxFloats load_anywhere(const float* from) { return _mm256_loadu_ps(from); }
    HW4_INLINE void store(float* to) const { _mm256_store_ps(to, x); }
};

struct AvxInts {
    __m256i x;

    AvxInts() = default;
    HW4_INLINE AvxInts(__m256i value) : x(value) {}
    HW4_INLINE explicit AvxInts(int32_t value) : x(_mm256_set1_epi32(value)) {}
    static HW4_INLINE AvxInts load(const int32_t* from) {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    }
    HW4_INLINE void store(int32_t* to) const { _mm256_store_si256(reinterpret_cast<__m256i*>(to), x); }
    template <int kBits>
    HW4_INLINE AvxInts shifted_left() const {
        return _mm256_slli_epi32(x, kBits);
    }
    template <int kBits>
    HW4_INLINE AvxInts shifted_right() const {
        return _mm256_srai_epi32(x, kBits);
    }
    HW4_INLINE AvxInts shifted_left(AvxInts bits) const { return _mm256_sllv_epi32(x, bits.x); }
    HW4_INLINE AvxInts shifted_right(AvxInts bits) const { return _mm256_srav_epi32(x, bits.x); }
    HW4_INLINE AvxFloats as_float() const { return _mm256_castsi256_ps(x); }
};

HW4_INLINE AvxFloats operator+(AvxFloats a, AvxFloats b) { return _mm256_add_ps(a.x, b.x); }
HW4_INLINE AvxFloats operator-(AvxFloats a, AvxFloats b) { return _mm256_sub_ps(a.x, b.x); }
HW4_INLINE AvxFloats operator*(AvxFloats a, AvxFloats b) { return _mm256_mul_ps(a.x, b.x); }
HW4_INLINE AvxFloats fused(AvxFloats a, AvxFloats b, AvxFloats c) { return _mm256_fmadd_ps(a.x, b.x, c.x); }
HW4_INLINE AvxFloats larger(AvxFloats a, AvxFloats b) { return _mm256_max_ps(a.x, b.x); }
HW4_INLINE bool any_above(AvxFloats a, AvxFloats b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a.x, b.x, _CMP_GT_OQ)) != 0;
}

HW4_INLINE AvxInts operator+(AvxInts a, AvxInts b) { return _mm256_add_epi32(a.x, b.x); }
HW4_INLINE AvxInts operator-(AvxInts a, AvxInts b) { return _mm256_sub_epi32(a.x, b.x); }
HW4_INLINE AvxInts operator&(AvxInts a, AvxInts b) { return _mm256_and_si256(a.x, b.x); }
HW4_INLINE AvxInts larger(AvxInts a, AvxInts b) { return _mm256_max_epi32(a.x, b.x); }
HW4_INLINE AvxInts smaller(AvxInts a, AvxInts b) { return _mm256_min_epi32(a.x, b.x); }
HW4_INLINE bool any_positive(AvxInts a) {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(a.x, _mm256_setzero_si256())) != 0;
}

HW4_INLINE AvxFloats to_float(AvxInts a) { return _mm256_cvtepi32_ps(a.x); }
HW4_INLINE AvxInts nearest(AvxFloats a) { return _mm256_cvtps_epi32(a.x); }
HW4_INLINE AvxFloats with_fraction_of(AvxInts bits) {
    const __m256i fraction = _mm256_and_si256(bits.x, _mm256_set1_epi32(0x7fffff));
    return _mm256_or_ps(_mm256_castsi256_ps(fraction), _mm256_set1_ps(1.0f));
}
HW4_INLINE AvxFloats with_exponent_of(AvxInts bits) {
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_set1_epi32(0x7fffff), bits.x));
}

struct AvxMachine : X86Words {
    using F = AvxFloats;
    using I = AvxInts;
    struct Session {};
    static constexpr int kWidth = 8;
    static constexpr int kRowVectors = 1;
    static constexpr int kColumns = 4;
    static constexpr bool kFinishesLate = false;
    static constexpr int kLaneBytes = 4;

    static constexpr bool kExp2BySegments = false;
    // The table's entries at these indices.
    static HW4_INLINE AvxInts gathered(const uint32_t* table, AvxInts at) {
        return _mm256_i32gather_epi32(reinterpret_cast<const int*>(table), at.x, sizeof(int32_t));
    }

    // Sums have the element type of the instructions: __m256i has 64-bit elements, and g++ would copy it.
    using Words = int32_t __attribute__((vector_size(32)));

    static HW4_INLINE void store(uint8_t* to, __m256i x) { _mm256_store_si256(reinterpret_cast<__m256i*>(to), x); }
    static HW4_INLINE __m256i load(const uint8_t* from) {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    }
    // The four bytes of a column in all lanes.
    static HW4_INLINE __m256i column(const uint8_t* b, int digit, int x) {
        return _mm256_set1_epi32(four_bytes(b + int64_t{kLaneBytes} * (digit * kColumns + x)));
    }
};

} // namespace hw4::cpu
