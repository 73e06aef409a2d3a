// 512-bit dot products of four bytes (AVX512-VNNI: Cascade Lake and later, Zen 4). 3 x 8 accumulators, 2 + 1 operands:
// 27 of 32 registers, fewer with two digits. This file alone is built with -mavx512f -mavx512vnni.
//
// The instruction multiplies unsigned bytes with signed ones: rows come with 128 added to their digits, which is what
// words have, and weights as they are.
#include "src/cpu/fixed/attention_simd.h"
#include "src/cpu/fixed/sse.h"
#include "src/cpu/x86_intrinsics.h"

namespace hw4::cpu {
namespace {

struct Floats {
    __m512 x;

    Floats() = default;
    HW4_INLINE Floats(__m512 value) : x(value) {}
    HW4_INLINE explicit Floats(float value) : x(_mm512_set1_ps(value)) {}
    static HW4_INLINE Floats load(const float* from) { return _mm512_load_ps(from); }
    static HW4_INLINE Floats load_anywhere(const float* from) { return _mm512_loadu_ps(from); }
    HW4_INLINE void store(float* to) const { _mm512_store_ps(to, x); }
};

struct Ints {
    __m512i x;

    Ints() = default;
    HW4_INLINE Ints(__m512i value) : x(value) {}
    HW4_INLINE explicit Ints(int32_t value) : x(_mm512_set1_epi32(value)) {}
    static HW4_INLINE Ints load(const int32_t* from) { return _mm512_load_si512(from); }
    HW4_INLINE void store(int32_t* to) const { _mm512_store_si512(to, x); }
    template <int kBits>
    HW4_INLINE Ints shifted_left() const {
        return _mm512_slli_epi32(x, kBits);
    }
    template <int kBits>
    HW4_INLINE Ints shifted_right() const {
        return _mm512_srai_epi32(x, kBits);
    }
    HW4_INLINE Ints shifted_left(Ints bits) const { return _mm512_sllv_epi32(x, bits.x); }
    HW4_INLINE Ints shifted_right(Ints bits) const { return _mm512_srav_epi32(x, bits.x); }
    HW4_INLINE Floats as_float() const { return _mm512_castsi512_ps(x); }
};

HW4_INLINE Floats operator+(Floats a, Floats b) { return _mm512_add_ps(a.x, b.x); }
HW4_INLINE Floats operator-(Floats a, Floats b) { return _mm512_sub_ps(a.x, b.x); }
HW4_INLINE Floats operator*(Floats a, Floats b) { return _mm512_mul_ps(a.x, b.x); }
HW4_INLINE Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a.x, b.x, c.x); }
HW4_INLINE Floats larger(Floats a, Floats b) { return _mm512_max_ps(a.x, b.x); }
HW4_INLINE bool any_above(Floats a, Floats b) { return _mm512_cmp_ps_mask(a.x, b.x, _CMP_GT_OQ) != 0; }

HW4_INLINE Ints operator+(Ints a, Ints b) { return _mm512_add_epi32(a.x, b.x); }
HW4_INLINE Ints operator-(Ints a, Ints b) { return _mm512_sub_epi32(a.x, b.x); }
HW4_INLINE Ints operator&(Ints a, Ints b) { return _mm512_and_si512(a.x, b.x); }
HW4_INLINE Ints larger(Ints a, Ints b) { return _mm512_max_epi32(a.x, b.x); }
HW4_INLINE Ints smaller(Ints a, Ints b) { return _mm512_min_epi32(a.x, b.x); }
HW4_INLINE bool any_positive(Ints a) { return _mm512_cmpgt_epi32_mask(a.x, _mm512_setzero_si512()) != 0; }

HW4_INLINE Floats to_float(Ints a) { return _mm512_cvtepi32_ps(a.x); }
HW4_INLINE Ints nearest(Floats a) { return _mm512_cvtps_epi32(a.x); }
HW4_INLINE Floats with_fraction_of(Ints bits) {
    const __m512i one = _mm512_castps_si512(_mm512_set1_ps(1.0f));
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(bits.x, _mm512_set1_epi32(0x7fffff), one, 0xea));
}
HW4_INLINE Floats with_exponent_of(Ints bits) {
    return _mm512_castsi512_ps(_mm512_andnot_si512(_mm512_set1_epi32(0x7fffff), bits.x));
}

template <int kDigitCount>
struct Avx512Vnni {
    static constexpr int kDigits = kDigitCount;
    using F = Floats;
    using I = Ints;
    static constexpr int kWidth = 16;
    static constexpr int kRowVectors = 2;
    static constexpr int kColumns = 4;
    static constexpr int kDepth = 4;
    static constexpr int kLaneBytes = 4;
    static constexpr int kQueryOffset[3] = {128, 128, 128};
    static constexpr int kWeightOffset[3] = {0, 0, 0};

    template <class T>
    static HW4_INLINE void transpose4(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
        transpose4_words(from, from_stride, to, to_stride);
    }

    // A table's numbers at the lanes.
    static HW4_INLINE Ints gathered(const uint32_t* table, Ints at) {
        return _mm512_i32gather_epi32(at.x, table, sizeof(int32_t));
    }

    // Bits of a where the mask has ones, of b elsewhere.
    static HW4_INLINE __m512i select(__m512i mask, __m512i a, __m512i b) {
        return _mm512_ternarylogic_epi32(mask, a, b, 0xca);
    }

    // Bytes of four words a lane, by digit, highest first.
    static HW4_INLINE void bytes_of_four(const Ints* w, __m512i (&digit)[kDigits]) {
        const __m512i bytes = _mm512_set1_epi32(0x00ff00ff);
        const __m512i halves = _mm512_set1_epi32(0xffff);
        const auto even = [&](int i) { return select(bytes, w[i].x, _mm512_slli_epi32(w[i + 1].x, 8)); };
        const auto odd = [&](int i) { return select(bytes, _mm512_srli_epi32(w[i].x, 8), w[i + 1].x); };
        const __m512i even01 = even(0);
        const __m512i even23 = even(2);
        if constexpr (kDigits == 3) digit[0] = select(halves, _mm512_srli_epi32(even01, 16), even23);
        digit[kDigits - 2] = select(halves, odd(0), _mm512_slli_epi32(odd(2), 16));
        digit[kDigits - 1] = select(halves, even01, _mm512_slli_epi32(even23, 16));
    }

    static HW4_INLINE void pack_a(const Ints* w, uint8_t* to, size_t digit_bytes) {
        __m512i digit[kDigits];
        bytes_of_four(w, digit);
        for (size_t i = 0; i < kDigits; ++i) _mm512_store_si512(to + i * digit_bytes, digit[i]);
    }
    static HW4_INLINE void pack_weights(const Ints* w, uint8_t* to, size_t digit_bytes) { pack_a(w, to, digit_bytes); }
    static HW4_INLINE void pack_b(const Ints* w, uint8_t* to, size_t digit_bytes) {
        __m512i digit[kDigits];
        bytes_of_four(w, digit);
        const __m512i sign = _mm512_set1_epi32(static_cast<int32_t>(0x80808080u));
        for (size_t i = 0; i < kDigits; ++i) _mm512_store_si512(to + i * digit_bytes, _mm512_xor_si512(digit[i], sign));
    }

    // All lanes the four bytes of a column.
    static HW4_INLINE __m512i column(const uint8_t* b, int digit, int x) {
        return _mm512_set1_epi32(four_bytes(b + int64_t{kLaneBytes} * (digit * kColumns + x)));
    }

    // Sums have the element type of the instructions: of __m512i, whose elements have 64 bits, g++ makes copies.
    using Words = int32_t __attribute__((vector_size(64)));

    // Of the sums of a column and a vector of rows.
    static HW4_INLINE __m512i combined(const Words (&l)[kDigits][kColumns][kRowVectors], int x, int r) {
        const __m512i low = _mm512_srai_epi32(__m512i(l[kDigits - 1][x][r]), 8);
        if constexpr (kDigits == 2) return _mm512_add_epi32(__m512i(l[0][x][r]), low);
        return _mm512_add_epi32(_mm512_add_epi32(_mm512_slli_epi32(__m512i(l[0][x][r]), 8), __m512i(l[1][x][r])), low);
    }

    struct Sums {
        Words l[kDigits][kColumns][kRowVectors];

        HW4_INLINE void start(const uint8_t* from) {
#pragma GCC unroll 3
            for (int i = 0; i < kDigits; ++i)
#pragma GCC unroll 4
                for (int x = 0; x < kColumns; ++x)
#pragma GCC unroll 2
                    for (int r = 0; r < kRowVectors; ++r) l[i][x][r] = Words(column(from, i, x));
        }

        // Not loaded any earlier than here: there are registers for one digit of a at a time.
        static HW4_INLINE void next_digit(__m512i (&a)[kRowVectors], const uint8_t* from) {
            keep_order();
#pragma GCC unroll 2
            for (int64_t r = 0; r < kRowVectors; ++r) a[r] = _mm512_load_si512(from + 64 * r);
        }
        static HW4_INLINE void add(Words (&sums)[kRowVectors], const __m512i (&a)[kRowVectors], __m512i b) {
#pragma GCC unroll 2
            for (int r = 0; r < kRowVectors; ++r) sums[r] = Words(_mm512_dpbusd_epi32(__m512i(sums[r]), a[r], b));
        }

        // Digit by digit, so that sums that depend on each other are far apart.
        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            constexpr int64_t digit_bytes = int64_t{64} * kRowVectors;
            __m512i digit[kRowVectors];
#pragma GCC unroll 3
            for (int i = kDigits - 1; i >= 0; --i) {
                next_digit(digit, a + i * digit_bytes);
#pragma GCC unroll 4
                for (int x = 0; x < kColumns; ++x) {
                    if (i == 0) keep_order();
#pragma GCC unroll 3
                    for (int j = 0; i + j < kDigits; ++j) add(l[i + j][x], digit, column(b, j, x));
                }
            }
        }

        template <class End>
        HW4_INLINE void finish(End end) const {
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x)
#pragma GCC unroll 2
                for (int r = 0; r < kRowVectors; ++r) end(x, r, Ints(combined(l, x, r)));
        }
    };
};

bool supported() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni"); }

} // namespace

const BlockKernel& fixed_avx512_blocks() {
    static constexpr BlockKernel blocks = FixedAttention<FixedRules, Avx512Vnni<3>>::blocks(supported);
    return blocks;
}

const BlockKernel& fixed16_avx512_blocks() {
    static constexpr BlockKernel blocks = FixedAttention<Fixed16Rules, Avx512Vnni<2>>::blocks(supported);
    return blocks;
}

} // namespace hw4::cpu
