// ARM's dot products of four bytes. 3 x 8 accumulators, 2 + 3 inputs: 29 of 32 registers, fewer with two digits. Only
// this file is compiled with +dotprod.
#include <sys/auxv.h>

#include "src/cpu/fixed/attention_simd.h"
#include "src/cpu/fixed/neon.h"

namespace hw4::cpu {
namespace {

template <int kDigitCount>
struct Sdot : NeonMachine {
    static constexpr int kDigits = kDigitCount;
    static constexpr int kDepth = 4;
    static constexpr int kWeightsAtOnce = kDepth;
    static constexpr int kLaneBytes = 4;

    static HW4_INLINE void pack_a(const NeonInts* w, uint8_t* to, size_t digit_bytes) {
        int8x16_t digit[kDigits];
        digits_of_four(w, digit);
        for (size_t i = 0; i < kDigits; ++i) vst1q_u8(to + i * digit_bytes, vreinterpretq_u8_s8(digit[i]));
    }
    static HW4_INLINE void pack_b(const NeonInts* w, uint8_t* to, size_t digit_bytes) { pack_a(w, to, digit_bytes); }
    static HW4_INLINE void pack_weights(const NeonInts* w, uint8_t* to, size_t digit_bytes) {
        pack_a(w, to, digit_bytes);
    }

    struct Sums {
        int32x4_t l[kDigits][kColumns][kRowVectors];

        HW4_INLINE void start(const uint8_t* from) {
            const auto* const sums = reinterpret_cast<const int32_t*>(from);
#pragma GCC unroll 3
            for (int64_t i = 0; i < kDigits; ++i)
#pragma GCC unroll 4
                for (int x = 0; x < kColumns; ++x)
#pragma GCC unroll 2
                    for (int r = 0; r < kRowVectors; ++r) l[i][x][r] = vld1q_dup_s32(sums + i * kColumns + x);
        }

        template <int kLane>
        static HW4_INLINE void add(int32x4_t (&l)[kColumns][kRowVectors], const int8x16_t (&a)[kRowVectors],
                                   int8x16_t b) {
#pragma GCC unroll 2
            for (int r = 0; r < kRowVectors; ++r) l[kLane][r] = vdotq_laneq_s32(l[kLane][r], a[r], b, kLane);
        }
        static HW4_INLINE void add_columns(int32x4_t (&l)[kColumns][kRowVectors], const int8x16_t (&a)[kRowVectors],
                                           int8x16_t b) {
            add<0>(l, a, b);
            add<1>(l, a, b);
            add<2>(l, a, b);
            add<3>(l, a, b);
        }

        // Loaded here and not earlier: there are registers for only one digit of a at a time.
        static HW4_INLINE void next_digit(int8x16_t (&a)[kRowVectors], const int8_t* from) {
            keep_order();
#pragma GCC unroll 2
            for (int64_t r = 0; r < kRowVectors; ++r) a[r] = vld1q_s8(from + 16 * r);
        }

        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            const auto* const from = reinterpret_cast<const int8_t*>(a);
            const auto* const to = reinterpret_cast<const int8_t*>(b);
            int8x16_t b_digit[kDigits];
#pragma GCC unroll 3
            for (int64_t i = 0; i < kDigits; ++i) b_digit[i] = vld1q_s8(to + 16 * i);
            // Digit by digit, so that dependent sums are far apart.
            constexpr int64_t digit_bytes = int64_t{16} * kRowVectors;
            int8x16_t digit[kRowVectors];
#pragma GCC unroll 3
            for (int64_t i = kDigits - 1; i >= 0; --i) {
                next_digit(digit, from + i * digit_bytes);
#pragma GCC unroll 3
                for (int64_t j = 0; i + j < kDigits; ++j) add_columns(l[i + j], digit, b_digit[j]);
            }
        }

        template <class End>
        HW4_INLINE void finish(End end) const {
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x)
#pragma GCC unroll 2
                for (int r = 0; r < kRowVectors; ++r) end(x, r, NeonInts(combined(l, x, r)));
        }
    };
    using ValueSums = Sums;
};

bool supported() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }

} // namespace

constexpr BlockKernel kFixedSdot = FixedAttention<FixedRules, Sdot<3>>::blocks(supported);
constexpr BlockKernel kFixed16Sdot = FixedAttention<Fixed16Rules, Sdot<2>>::blocks(supported);

} // namespace hw4::cpu
