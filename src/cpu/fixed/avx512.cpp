// 512-bit dot products of four bytes (AVX512-VNNI: Cascade Lake and later, Zen 4). 3 x 8 accumulators, 2 + 1 inputs: 27
// of 32 registers, fewer with two digits. Only this file is compiled with -mavx512f -mavx512bw -mavx512vnni.
//
// The instruction multiplies unsigned bytes with signed ones: rows have 128 added to their digits, as words have them,
// and weights need no offset.
#include "src/cpu/fixed/avx512.h"
#include "src/cpu/fixed/attention_simd.h"

namespace hw4::cpu {
namespace {

template <int kDigitCount>
struct Avx512Vnni : Avx512Machine {
    static constexpr int kDigits = kDigitCount;
    static constexpr int kRowVectors = 2;
    static constexpr int kColumns = 4;
    static constexpr bool kFinishesLate = false;
    static constexpr int kDepth = 4;
    static constexpr int kWeightsAtOnce = kDepth;
    static constexpr int kLaneBytes = 4;
    static constexpr int kQueryOffset[3] = {128, 128, 128};
    static constexpr int kWeightOffset[3] = {0, 0, 0};

    static HW4_INLINE void pack_a(const Avx512Ints* w, uint8_t* to, size_t digit_bytes) {
        __m512i digit[kDigits];
        bytes_of_four(w, digit);
        for (size_t i = 0; i < kDigits; ++i) _mm512_store_si512(to + i * digit_bytes, digit[i]);
    }
    static HW4_INLINE void pack_weights(const Avx512Ints* w, uint8_t* to, size_t digit_bytes) {
        pack_a(w, to, digit_bytes);
    }
    static HW4_INLINE void pack_b(const Avx512Ints* w, uint8_t* to, size_t digit_bytes) {
        __m512i digit[kDigits];
        bytes_of_four(w, digit);
        const __m512i sign = _mm512_set1_epi32(static_cast<int32_t>(0x80808080u));
        for (size_t i = 0; i < kDigits; ++i) _mm512_store_si512(to + i * digit_bytes, _mm512_xor_si512(digit[i], sign));
    }

    // The four bytes of a column in all lanes.
    static HW4_INLINE __m512i column(const uint8_t* b, int digit, int x) {
        return _mm512_set1_epi32(four_bytes(b + int64_t{kLaneBytes} * (digit * kColumns + x)));
    }

    // Sums have the element type of the instructions: __m512i has 64-bit elements, and g++ would copy it.
    using Words = int32_t __attribute__((vector_size(64)));

    // For the sums of a column and a vector of rows.
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

        // Loaded here and not earlier: there are registers for only one digit of a at a time.
        static HW4_INLINE void next_digit(__m512i (&a)[kRowVectors], const uint8_t* from) {
            keep_order();
#pragma GCC unroll 2
            for (int64_t r = 0; r < kRowVectors; ++r) a[r] = _mm512_load_si512(from + 64 * r);
        }
        static HW4_INLINE void add(Words (&sums)[kRowVectors], const __m512i (&a)[kRowVectors], __m512i b) {
#pragma GCC unroll 2
            for (int r = 0; r < kRowVectors; ++r) sums[r] = Words(_mm512_dpbusd_epi32(__m512i(sums[r]), a[r], b));
        }

        // Digit by digit, so that dependent sums are far apart.
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
                for (int r = 0; r < kRowVectors; ++r) end(x, r, Avx512Ints(combined(l, x, r)));
        }
    };
    using ValueSums = Sums;
};

bool supported() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vnni");
}

} // namespace

constexpr BlockKernel kFixedAvx512 = FixedAttention<FixedRules, Avx512Vnni<3>>::blocks(supported);
constexpr BlockKernel kFixed16Avx512 = FixedAttention<Fixed16Rules, Avx512Vnni<2>>::blocks(supported);

} // namespace hw4::cpu
