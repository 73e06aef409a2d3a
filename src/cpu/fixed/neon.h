// ARM's 128-bit vectors for attention_simd.h, for the kernels with and without matrix instructions.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "src/contracts/fixed/forward.h"

namespace hw4::cpu {

struct NeonFloats {
    float32x4_t x;

    NeonFloats() = default;
    HW4_INLINE NeonFloats(float32x4_t value) : x(value) {}
    HW4_INLINE explicit NeonFloats(float value) : x(vdupq_n_f32(value)) {}
    static HW4_INLINE NeonFloats load(const float* from) { return vld1q_f32(from); }
    static HW4_INLINE NeonFloats load_anywhere(const float* from) { return vld1q_f32(from); }
    HW4_INLINE void store(float* to) const { vst1q_f32(to, x); }
};

struct NeonInts {
    int32x4_t x;

    NeonInts() = default;
    HW4_INLINE NeonInts(int32x4_t value) : x(value) {}
    HW4_INLINE explicit NeonInts(int32_t value) : x(vdupq_n_s32(value)) {}
    static HW4_INLINE NeonInts load(const int32_t* from) { return vld1q_s32(from); }
    HW4_INLINE void store(int32_t* to) const { vst1q_s32(to, x); }
    template <int kBits>
    HW4_INLINE NeonInts shifted_left() const {
        return vshlq_n_s32(x, kBits);
    }
    template <int kBits>
    HW4_INLINE NeonInts shifted_right() const {
        return vshrq_n_s32(x, kBits);
    }
    HW4_INLINE NeonInts shifted_left(NeonInts bits) const { return vshlq_s32(x, bits.x); }
    HW4_INLINE NeonInts shifted_right(NeonInts bits) const { return vshlq_s32(x, vnegq_s32(bits.x)); }
    HW4_INLINE NeonFloats as_float() const { return vreinterpretq_f32_s32(x); }
};

HW4_INLINE NeonFloats operator+(NeonFloats a, NeonFloats b) { return vaddq_f32(a.x, b.x); }
HW4_INLINE NeonFloats operator-(NeonFloats a, NeonFloats b) { return vsubq_f32(a.x, b.x); }
HW4_INLINE NeonFloats operator*(NeonFloats a, NeonFloats b) { return vmulq_f32(a.x, b.x); }
HW4_INLINE NeonFloats fused(NeonFloats a, NeonFloats b, NeonFloats c) { return vfmaq_f32(c.x, a.x, b.x); }
HW4_INLINE NeonFloats larger(NeonFloats a, NeonFloats b) { return vmaxq_f32(a.x, b.x); }
HW4_INLINE bool any_above(NeonFloats a, NeonFloats b) { return vmaxvq_u32(vcgtq_f32(a.x, b.x)) != 0; }

// Modulo 2^32, as the kernels need it: the compiler assumes that vaddq_s32() never overflows.
HW4_INLINE NeonInts operator+(NeonInts a, NeonInts b) {
    return vreinterpretq_s32_u32(vaddq_u32(vreinterpretq_u32_s32(a.x), vreinterpretq_u32_s32(b.x)));
}
HW4_INLINE NeonInts operator-(NeonInts a, NeonInts b) {
    return vreinterpretq_s32_u32(vsubq_u32(vreinterpretq_u32_s32(a.x), vreinterpretq_u32_s32(b.x)));
}
HW4_INLINE NeonInts operator&(NeonInts a, NeonInts b) { return vandq_s32(a.x, b.x); }
HW4_INLINE NeonInts larger(NeonInts a, NeonInts b) { return vmaxq_s32(a.x, b.x); }
HW4_INLINE NeonInts smaller(NeonInts a, NeonInts b) { return vminq_s32(a.x, b.x); }
HW4_INLINE bool any_positive(NeonInts a) { return vmaxvq_s32(a.x) > 0; }
HW4_INLINE NeonFloats to_float(NeonInts a) { return vcvtq_f32_s32(a.x); }
HW4_INLINE NeonInts nearest(NeonFloats a) { return vcvtnq_s32_f32(a.x); }
HW4_INLINE NeonFloats with_fraction_of(NeonInts bits) {
    return vbslq_f32(vdupq_n_u32(0x7fffff), vreinterpretq_f32_s32(bits.x), vdupq_n_f32(1.0f));
}
HW4_INLINE NeonFloats with_exponent_of(NeonInts bits) {
    return vreinterpretq_f32_s32(vbicq_s32(bits.x, vdupq_n_s32(0x7fffff)));
}

struct NeonWords {
    // to[t][row] = from[row][t], 4 x 4 floats or integers.
    template <class T>
    static HW4_INLINE void transpose4(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
        static_assert(sizeof(T) == sizeof(int32_t));
        const auto row = [&](int64_t i) {
            int32x4_t x;
            std::memcpy(&x, from + i * from_stride, sizeof x);
            return x;
        };
        const auto put = [&](int64_t t, int32x2_t first, int32x2_t second) {
            const int32x4_t x = vcombine_s32(first, second);
            std::memcpy(to + t * to_stride, &x, sizeof x);
        };
        const int32x4x2_t low = vtrnq_s32(row(0), row(1));
        const int32x4x2_t high = vtrnq_s32(row(2), row(3));
        put(0, vget_low_s32(low.val[0]), vget_low_s32(high.val[0]));
        put(1, vget_low_s32(low.val[1]), vget_low_s32(high.val[1]));
        put(2, vget_high_s32(low.val[0]), vget_high_s32(high.val[0]));
        put(3, vget_high_s32(low.val[1]), vget_high_s32(high.val[1]));
    }
};

struct NeonMachine : NeonWords {
    using F = NeonFloats;
    using I = NeonInts;
    struct Session {};
    static constexpr int kWidth = 4;
    static constexpr int kRowVectors = 2;
    static constexpr int kColumns = 4;
    static constexpr bool kFinishesLate = false;
    // All digits are signed; the digits of P are stored minus 128.
    static constexpr int kQueryOffset[3] = {0, 0, 0};
    static constexpr int kWeightOffset[3] = {-128, -128, -128};

    static constexpr bool kExp2BySegments = false;
    // The table's entries at these indices.
    static HW4_INLINE NeonInts gathered(const uint32_t* table, NeonInts at) {
        const auto two = vreinterpretq_u64_s32(at.x);
        const uint64_t first = vgetq_lane_u64(two, 0);
        const uint64_t second = vgetq_lane_u64(two, 1);
        const auto one = [&](uint64_t i) { return vdup_n_f32(float_of(table[i])); };
        const float32x2_t low = vzip1_f32(one(static_cast<uint32_t>(first)), one(first >> 32));
        const float32x2_t high = vzip1_f32(one(static_cast<uint32_t>(second)), one(second >> 32));
        return vreinterpretq_s32_f32(vcombine_f32(low, high));
    }

    // The signed digits of four words per lane, by digit: four bytes per lane, highest digit first.
    template <int kDigits>
    static HW4_INLINE void digits_of_four(const NeonInts* w, int8x16_t (&digit)[kDigits]) {
        const auto bytes = [&](int i) { return vreinterpretq_s8_s32(w[i].x); };
        const auto even = [](int8x16_t a, int8x16_t b) { return vreinterpretq_s16_s8(vtrn1q_s8(a, b)); };
        const auto odd = [](int8x16_t a, int8x16_t b) { return vreinterpretq_s16_s8(vtrn2q_s8(a, b)); };
        const int8x16_t sign = vdupq_n_s8(-128);
        const int16x8_t even01 = even(bytes(0), bytes(1));
        const int16x8_t even23 = even(bytes(2), bytes(3));
        const int16x8_t odd01 = odd(bytes(0), bytes(1));
        const int16x8_t odd23 = odd(bytes(2), bytes(3));
        if constexpr (kDigits == 3) digit[0] = veorq_s8(vreinterpretq_s8_s16(vtrn2q_s16(even01, even23)), sign);
        digit[kDigits - 2] = veorq_s8(vreinterpretq_s8_s16(vtrn1q_s16(odd01, odd23)), sign);
        digit[kDigits - 1] = veorq_s8(vreinterpretq_s8_s16(vtrn1q_s16(even01, even23)), sign);
    }

    // For the sums of a column and some rows, l[digit][column][rows].
    template <int kDigits, int kLeft, int kRight>
    static HW4_INLINE int32x4_t combined(const int32x4_t (&l)[kDigits][kLeft][kRight], int x, int r) {
        if constexpr (kDigits == 2)
            return vsraq_n_s32(l[0][x][r], l[1][x][r], 8);
        else
            return vaddq_s32(vsraq_n_s32(l[1][x][r], l[2][x][r], 8), vshlq_n_s32(l[0][x][r], 8));
    }
};

} // namespace hw4::cpu
