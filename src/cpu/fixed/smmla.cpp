// ARM's products of 2 x 8 with 8 x 2 bytes. 3 x 8 accumulators, 6 + 2 inputs: all 32 registers, fewer with two digits.
// Only this file is compiled with +i8mm.
#include <sys/auxv.h>

#include "src/cpu/fixed/attention_simd.h"
#include "src/cpu/fixed/neon.h"

namespace hw4::cpu {
namespace {

template <int kDigitCount>
struct Smmla : NeonMachine {
    static constexpr int kDigits = kDigitCount;
    static constexpr int kDepth = 8;
    static constexpr int kWeightsAtOnce = kDepth;
    static constexpr int kLaneBytes = 8;

    static HW4_INLINE void pack_a(const NeonInts* w, uint8_t* to, size_t digit_bytes) {
        int8x16_t first[kDigits];
        int8x16_t second[kDigits];
        digits_of_four(w, first);
        digits_of_four(w + 4, second);
        for (size_t i = 0; i < kDigits; ++i) {
            const int32x4_t f = vreinterpretq_s32_s8(first[i]);
            const int32x4_t s = vreinterpretq_s32_s8(second[i]);
            vst1q_u8(to + i * digit_bytes, vreinterpretq_u8_s32(vzip1q_s32(f, s)));
            vst1q_u8(to + i * digit_bytes + 16, vreinterpretq_u8_s32(vzip2q_s32(f, s)));
        }
    }
    static HW4_INLINE void pack_b(const NeonInts* w, uint8_t* to, size_t digit_bytes) { pack_a(w, to, digit_bytes); }
    static HW4_INLINE void pack_weights(const NeonInts* w, uint8_t* to, size_t digit_bytes) {
        pack_a(w, to, digit_bytes);
    }

    static constexpr int64_t kRowPairs = int64_t{2} * kRowVectors;
    static constexpr int64_t kColumnPairs = kColumns / 2;

    // An accumulator has (row 0, column 0), (row 0, column 1), (row 1, column 0), (row 1, column 1) of a pair of each.
    struct Sums {
        int32x4_t l[kDigits][kColumnPairs][kRowPairs];

        static HW4_INLINE int32x4_t pair_twice(const uint8_t* from) {
            const int32x2_t pair = vreinterpret_s32_u8(vld1_u8(from));
            return vcombine_s32(pair, pair);
        }

        HW4_INLINE void start(const uint8_t* from) {
            constexpr int64_t digit_bytes = int64_t{kColumns} * 4;
#pragma GCC unroll 3
            for (int64_t i = 0; i < kDigits; ++i)
#pragma GCC unroll 2
                for (int64_t x = 0; x < kColumnPairs; ++x)
#pragma GCC unroll 4
                    for (int r = 0; r < kRowPairs; ++r) l[i][x][r] = pair_twice(from + i * digit_bytes + 8 * x);
        }

        // Loaded here and not earlier: there are registers for only two inputs of a at a time.
        static HW4_INLINE int8x16_t next_operand(const int8_t* from) {
            keep_order();
            return vld1q_s8(from);
        }

        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            const auto* const from = reinterpret_cast<const int8_t*>(a);
            const auto* const to = reinterpret_cast<const int8_t*>(b);
            int8x16_t b_digit[kDigits][kColumnPairs];
#pragma GCC unroll 3
            for (int64_t i = 0; i < kDigits; ++i)
#pragma GCC unroll 2
                for (int64_t x = 0; x < kColumnPairs; ++x) b_digit[i][x] = vld1q_s8(to + 16 * (i * kColumnPairs + x));
                    // Digit by digit, so that dependent sums are far apart.
#pragma GCC unroll 3
            for (int64_t i = kDigits - 1; i >= 0; --i)
#pragma GCC unroll 4
                for (int64_t r = 0; r < kRowPairs; ++r) {
                    const int8x16_t digit = next_operand(from + 16 * (i * kRowPairs + r));
#pragma GCC unroll 2
                    for (int x = 0; x < kColumnPairs; ++x)
#pragma GCC unroll 3
                        for (int64_t j = 0; i + j < kDigits; ++j)
                            l[i + j][x][r] = vmmlaq_s32(l[i + j][x][r], digit, b_digit[j][x]);
                }
        }

        template <class End>
        HW4_INLINE void finish(End end) const {
#pragma GCC unroll 2
            for (int x = 0; x < kColumnPairs; ++x)
#pragma GCC unroll 2
                for (int r = 0; r < kRowVectors; ++r) {
                    const int i = 2 * r;
                    const int32x4_t first = combined(l, x, i);
                    const int32x4_t second = combined(l, x, i + 1);
                    end(2 * x, r, NeonInts(vuzp1q_s32(first, second)));
                    end(2 * x + 1, r, NeonInts(vuzp2q_s32(first, second)));
                }
        }
    };
    using ValueSums = Sums;
};

bool supported() { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }

} // namespace

constexpr BlockKernel kFixedSmmla = FixedAttention<FixedRules, Smmla<3>>::blocks(supported);
constexpr BlockKernel kFixed16Smmla = FixedAttention<Fixed16Rules, Smmla<2>>::blocks(supported);

} // namespace hw4::cpu
