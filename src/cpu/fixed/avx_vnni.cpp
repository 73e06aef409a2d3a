// 256-bit dot products of four bytes (AVX-VNNI: Alder Lake and later). 3 x 4 accumulators, 2 + 1 inputs: 15 of 16
// registers, fewer with two digits. Only this file is compiled with -mavxvnni.
//
// The instruction multiplies unsigned bytes with signed ones: rows have 128 added to their digits, as words have them,
// and weights need no offset. It wraps; the saturating instruction would also work, since no sum of at most 256 such
// products comes near 2^31.
#include <cpuid.h>

#include "src/cpu/fixed/attention_simd.h"
#include "src/cpu/fixed/avx.h"

namespace hw4::cpu {
namespace {

template <int kDigitCount>
struct AvxVnni : AvxMachine {
    static constexpr int kDigits = kDigitCount;
    static constexpr int kDepth = 4;
    static constexpr int kWeightsAtOnce = kDepth;
    static constexpr int kQueryOffset[3] = {128, 128, 128};
    static constexpr int kWeightOffset[3] = {0, 0, 0};

    // The bytes of four words per lane, by digit, highest first.
    static HW4_INLINE void bytes_of_four(const AvxInts* w, __m256i (&digit)[kDigits]) {
        constexpr int kOdd = 0xaa;
        const __m256i mask = _mm256_set1_epi16(255);
        const auto even = [&](__m256i a, __m256i b) {
            return _mm256_or_si256(_mm256_and_si256(a, mask), _mm256_slli_epi32(_mm256_and_si256(b, mask), 8));
        };
        const auto odd = [&](__m256i a, __m256i b) {
            return _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(a, 8), mask), _mm256_andnot_si256(mask, b));
        };
        const __m256i even01 = even(w[0].x, w[1].x);
        const __m256i even23 = even(w[2].x, w[3].x);
        const __m256i odd01 = odd(w[0].x, w[1].x);
        const __m256i odd23 = odd(w[2].x, w[3].x);
        if constexpr (kDigits == 3) digit[0] = _mm256_blend_epi16(_mm256_srli_epi32(even01, 16), even23, kOdd);
        digit[kDigits - 2] = _mm256_blend_epi16(odd01, _mm256_slli_epi32(odd23, 16), kOdd);
        digit[kDigits - 1] = _mm256_blend_epi16(even01, _mm256_slli_epi32(even23, 16), kOdd);
    }

    static HW4_INLINE void pack_a(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        __m256i digit[kDigits];
        bytes_of_four(w, digit);
        for (size_t i = 0; i < kDigits; ++i) store(to + i * digit_bytes, digit[i]);
    }
    static HW4_INLINE void pack_weights(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        pack_a(w, to, digit_bytes);
    }
    static HW4_INLINE void pack_b(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        __m256i digit[kDigits];
        bytes_of_four(w, digit);
        for (size_t i = 0; i < kDigits; ++i)
            store(to + i * digit_bytes, _mm256_xor_si256(digit[i], _mm256_set1_epi8(-128)));
    }

    // For the sums of a column.
    static HW4_INLINE __m256i combined(const Words (&l)[kDigits][kColumns], int x) {
        const __m256i low = _mm256_srai_epi32(__m256i(l[kDigits - 1][x]), 8);
        if constexpr (kDigits == 2) return _mm256_add_epi32(__m256i(l[0][x]), low);
        return _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(__m256i(l[0][x]), 8), __m256i(l[1][x])), low);
    }

    struct Sums {
        Words l[kDigits][kColumns];

        HW4_INLINE void start(const uint8_t* from) {
#pragma GCC unroll 3
            for (int i = 0; i < kDigits; ++i)
#pragma GCC unroll 4
                for (int x = 0; x < kColumns; ++x) l[i][x] = Words(column(from, i, x));
        }

        static HW4_INLINE void add(Words& sum, __m256i a, __m256i b) {
            sum = Words(_mm256_dpbusd_avx_epi32(__m256i(sum), a, b));
        }

        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            const __m256i high = load(a);
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) {
                keep_order();
                const __m256i b_high = column(b, 0, x);
                add(l[0][x], high, b_high);
                if constexpr (kDigits == 3) add(l[2][x], load(a + 64), b_high);
                const __m256i next = load(a + 32);
                add(l[1][x], next, b_high);
                const __m256i b_next = column(b, 1, x);
                if constexpr (kDigits == 3) add(l[2][x], next, b_next);
                add(l[1][x], high, b_next);
                if constexpr (kDigits == 3) add(l[2][x], high, column(b, 2, x));
            }
        }

        template <class End>
        HW4_INLINE void finish(End end) const {
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) end(x, 0, AvxInts(combined(l, x)));
        }
    };
    using ValueSums = Sums;
};

// Not every compiler's __builtin_cpu_supports() knows avxvnni.
bool supported() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}

} // namespace

constexpr BlockKernel kFixedAvxVnni = FixedAttention<FixedRules, AvxVnni<3>>::blocks(supported);
constexpr BlockKernel kFixed16AvxVnni = FixedAttention<Fixed16Rules, AvxVnni<2>>::blocks(supported);

} // namespace hw4::cpu
