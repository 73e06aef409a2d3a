// 256-bit vectors without dot products of bytes (Haswell and later): products of 16-bit integers, added up in pairs. 2
// x 4 accumulators, 3 + 1 inputs, 2 products: 14 of 16 registers. Only this file is compiled with -mavx2 -mfma.
//
// The two higher digits of a number, n2*2^8 + n1, fit 16 bits, and their product holds four of the six products:
//
//     all = L0*2^16 + L1*2^8 + L2 = sum of (q2*2^8 + q1)*(k2*2^8 + k1) + q2*k0 + q0*k2
//
// That takes 40 bits. But all - L0*2^16 = L1*2^8 + L2 stays within 32 for up to 256 columns, each at most 2^8 *
// 2*127*128 + 2*127*128 + 128*128, or for 64 keys, where P's digits go up to 255, so `all` modulo 2^32 and L0 give
// combined() exactly: four products instead of six. Instead of the digits, a step has the highest digit, the two higher
// ones together, and the lowest.
//
// With two digits the whole number fits 16 bits, and two products suffice: L0*2^8 + L1 = sum of q1*(k1*2^8 + k0) +
// q0*k1. It stays within 32 bits for 256 columns, each at most 127 * 0x7f7f + 128*127, or for 128 keys, where each is
// 255 * 0x7f7f + 255*127. A step has both digits of a, and of b the number and its higher digit.
#include "src/cpu/fixed/attention_simd.h"
#include "src/cpu/fixed/avx.h"

namespace hw4::cpu {
namespace {

struct ThreeDigits : AvxMachine {
    static constexpr int kDigits = 3;
    static constexpr int kDepth = 2;
    static constexpr int kWeightsAtOnce = kDepth;
    static constexpr int kQueryOffset[3] = {0, 0, 0};
    static constexpr int kWeightOffset[3] = {-128, 0, -128};

    static HW4_INLINE void pack_a(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        pack(w, static_cast<int16_t>(0x8080), to, digit_bytes);
    }
    static HW4_INLINE void pack_b(const AvxInts* w, uint8_t* to, size_t digit_bytes) { pack_a(w, to, digit_bytes); }

    // For weights: subtracting 0x8080 would not fit 16 bits.
    static HW4_INLINE void pack_weights(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        pack(w, static_cast<int16_t>(0x8000), to, digit_bytes);
    }

    static HW4_INLINE void pack(const AvxInts* w, int16_t higher_offset, uint8_t* to, size_t digit_bytes) {
        constexpr int kOdd = 0xaa;
        const __m256i first = w[0].x;
        const __m256i second = w[1].x;
        const __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(first, 16), second, kOdd);
        const __m256i both = _mm256_blend_epi16(_mm256_srli_epi32(first, 8), _mm256_slli_epi32(second, 8), kOdd);
        const __m256i low =
            _mm256_and_si256(_mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), kOdd), _mm256_set1_epi16(255));
        store(to, _mm256_sub_epi16(high, _mm256_set1_epi16(128)));
        store(to + digit_bytes, _mm256_sub_epi16(both, _mm256_set1_epi16(higher_offset)));
        store(to + 2 * digit_bytes, _mm256_sub_epi16(low, _mm256_set1_epi16(128)));
    }

    struct Sums {
        Words l0[kColumns];
        Words all[kColumns];

        HW4_INLINE void start(const uint8_t* from) {
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) {
                const __m256i high = column(from, 0, x);
                const __m256i higher = _mm256_add_epi32(_mm256_slli_epi32(high, 8), column(from, 1, x));
                l0[x] = Words(high);
                all[x] = Words(_mm256_add_epi32(_mm256_slli_epi32(higher, 8), column(from, 2, x)));
            }
        }

        static HW4_INLINE Words products(__m256i a, __m256i b) { return Words(_mm256_madd_epi16(a, b)); }

        static HW4_INLINE Words sum(Words a, Words b) { return Words(_mm256_add_epi32(__m256i(a), __m256i(b))); }

        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            const __m256i high = load(a);
            const __m256i both = load(a + 32);
            const __m256i low = load(a + 64);
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) {
                keep_order();
                const __m256i b_high = column(b, 0, x);
                l0[x] = sum(l0[x], products(high, b_high));
                const Words lower = sum(products(low, b_high), products(high, column(b, 2, x)));
                all[x] = sum(all[x], products(both, column(b, 1, x)));
                all[x] = sum(all[x], lower);
            }
        }

        template <class End>
        HW4_INLINE void finish(End end) const {
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) {
                const auto high = __m256i(l0[x]);
                const __m256i rest = _mm256_sub_epi32(__m256i(all[x]), _mm256_slli_epi32(high, 16));
                end(x, 0, AvxInts(_mm256_add_epi32(_mm256_slli_epi32(high, 8), _mm256_srai_epi32(rest, 8))));
            }
        }
    };
    using ValueSums = Sums;
};

struct TwoDigits : AvxMachine {
    static constexpr int kDigits = 2;
    static constexpr int kDepth = 2;
    static constexpr int kWeightsAtOnce = kDepth;
    static constexpr int kQueryOffset[3] = {0, 0, 0};
    static constexpr int kWeightOffset[3] = {0, 0, 0};

    // The two words of a lane as pairs of 16 bits.
    static HW4_INLINE __m256i pairs(const AvxInts* w) {
        constexpr int kOdd = 0xaa;
        return _mm256_blend_epi16(w[0].x, _mm256_slli_epi32(w[1].x, 16), kOdd);
    }
    static HW4_INLINE __m256i higher(__m256i both) { return _mm256_srli_epi16(both, 8); }
    static HW4_INLINE __m256i lower(__m256i both) { return _mm256_and_si256(both, _mm256_set1_epi16(255)); }
    static HW4_INLINE __m256i less(__m256i x, int16_t offset) { return _mm256_sub_epi16(x, _mm256_set1_epi16(offset)); }

    static HW4_INLINE void pack_a(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        const __m256i both = pairs(w);
        store(to, less(higher(both), 128));
        store(to + digit_bytes, less(lower(both), 128));
    }
    static HW4_INLINE void pack_weights(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        const __m256i both = pairs(w);
        store(to, higher(both));
        store(to + digit_bytes, lower(both));
    }
    static HW4_INLINE void pack_b(const AvxInts* w, uint8_t* to, size_t digit_bytes) {
        const __m256i both = pairs(w);
        store(to, less(both, static_cast<int16_t>(0x8080)));
        store(to + digit_bytes, less(higher(both), 128));
    }

    struct Sums {
        Words both[kColumns];

        // Both offsets are zero.
        HW4_INLINE void start(const uint8_t*) {
#pragma GCC unroll 4
            for (Words& sum : both) sum = Words(_mm256_setzero_si256());
        }

        HW4_INLINE void step(const uint8_t* a, const uint8_t* b) {
            const __m256i high = load(a);
            const __m256i low = load(a + 32);
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) {
                const __m256i products =
                    _mm256_add_epi32(_mm256_madd_epi16(high, column(b, 0, x)), _mm256_madd_epi16(low, column(b, 1, x)));
                both[x] = Words(_mm256_add_epi32(__m256i(both[x]), products));
            }
        }

        template <class End>
        HW4_INLINE void finish(End end) const {
#pragma GCC unroll 4
            for (int x = 0; x < kColumns; ++x) end(x, 0, AvxInts(_mm256_srai_epi32(__m256i(both[x]), 8)));
        }
    };
    using ValueSums = Sums;
};

bool supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

} // namespace

constexpr BlockKernel kFixedAvx2 = FixedAttention<FixedRules, ThreeDigits>::blocks(supported);
constexpr BlockKernel kFixed16Avx2 = FixedAttention<Fixed16Rules, TwoDigits>::blocks(supported);

} // namespace hw4::cpu
