// Numbers as integers of a few digits, and what else the contracts "fixed" and "fixed16" have in common: how floats
// become such integers, the factors before and after, and the order in which a row's weights are added up. Their own
// headers say what is done with it.
#pragma once

#include "src/contracts/f32/forward.h"

namespace hw4::fixed {

constexpr int kMostColumns = 256;        // sums of products of digits stay within their integers up to here
constexpr float kReferenceSlack = 30.0f; // a row's reference stays while no tile exceeds it by more
constexpr int kLanes = 4;                // in which the weights of a row are added up

// x ~ n * 2^-e with integers |n| <= kLargest: n has kDigits balanced digits, from -128 to 127, the only such ones.
template <int kDigits>
struct Numbers {
    static_assert(kDigits == 2 || kDigits == 3);
    static constexpr int kBitsLess = 8 * (3 - kDigits);
    static constexpr int32_t kLargest = 0x7f7f7f >> kBitsLess;
    static constexpr uint32_t kBias = 0x808080u >> kBitsLess; // 128 in every digit

    // The exponent e for a group whose largest magnitude this is: the largest up to 149, or 141 with two digits, with
    // which it stays within kLargest; for denormals one less.
    static HW4_INLINE int exponent_for(float largest) {
        constexpr uint32_t kRoom = kDigits == 3 ? 0x10101u : 0x10100u; // lifts what rounds above kLargest to 2^n
        return 149 - kBitsLess - static_cast<int>((bits_of(largest) + kRoom) >> 23);
    }

    // The bytes of this are the digits plus 128: 0 the lowest.
    static HW4_INLINE uint32_t biased_digits(int32_t n) { return static_cast<uint32_t>(n) + kBias; }

    // The bytes of this are the digits, as two's complement.
    static HW4_INLINE uint32_t digit_bytes(int32_t n) { return biased_digits(n) ^ kBias; }
};

// 2^e as a product of two floats, which multiplied one after the other lose nothing but what rounds to 0 anyway.
struct Factors {
    float first;
    float second;
};

HW4_INLINE float power(int exponent) { return float_of(static_cast<uint32_t>(127 + exponent) << 23); }

HW4_INLINE Factors factors(int e) {
    const int half = e >> 1;
    return {power(half), power(e - half)};
}

// What K and V are multiplied by, and what Q is, and the result, to make up for it. Other factors would do; with these
// numbers up to 3, or 1, leave less room above them in their integers.
constexpr float kWiden = 1.3125f;         // 21/16
constexpr float kNarrow = 0x1.861862p-1f; // 16/21

// Of a tile of K or V whose largest magnitude this is. Beyond all floats the exponent is the least in either way.
template <int kDigits>
HW4_INLINE int exponent_of_tile(float largest) {
    return Numbers<kDigits>::exponent_for(largest * kWiden);
}

// kWiden * 2^e, kNarrow * 2^e.
HW4_INLINE Factors tile_factors(int e) { return {kWiden * factors(e).first, factors(e).second}; }
HW4_INLINE Factors result_factors(int e) { return {kNarrow * factors(e).first, factors(e).second}; }

HW4_INLINE int32_t nearest(float x) {
#if defined(__CUDA_ARCH__)
    return __float2int_rn(x);
#else
    return static_cast<int32_t>(std::nearbyint(x));
#endif
}

HW4_INLINE int32_t quantised(float x, Factors scale) { return nearest(x * scale.first * scale.second); }

// What is added to this becomes an integer with that bias.
constexpr float kRoundToBiased = 0x1.8p23f + static_cast<float>(Numbers<2>::kBias);

// biased_digits() of quantised(), of a number that has two digits, in the lower half of a word; the upper half is
// something else. The second factor is a power of 2, so the product is rounded once, by the addition, which rounds to
// integers: to even ones too, since an even one was added. Where a denormal would lose bits, all is 0 in either way.
HW4_INLINE uint32_t two_biased_digits(float x, Factors scale) {
    return bits_of(fused(x * scale.first, scale.second, kRoundToBiased));
}

// In the same way biased_digits(nearest(x * factor)), of a number that has two digits and is scaled at once (below):
// the product is rounded before.
HW4_INLINE uint32_t two_biased_digits_at_once(float x, float factor) { return bits_of(x * factor + kRoundToBiased); }

constexpr float kLargestFloat = 0x1.fffffep127f;

// An infinite number becomes the largest that is not.
HW4_INLINE float within_floats(float x) { return larger(-larger(-x, -kLargestFloat), -kLargestFloat); }

// What Q is multiplied by, of a problem's c.
HW4_INLINE float query_factor(float c) { return c * kNarrow; }

// q times that; where it is beyond all floats, which only d = 1 can do, the largest.
HW4_INLINE float scaled_query(float q, float factor) { return within_floats(q * factor); }

// Whether, for every number n of a row whose largest |n * c| this is, with its exponent, one multiplication gives
// quantised(scaled_query(n, c), factors(exponent)) too: nearest(n * factor_at_once(c, exponent)). Rounding n * c * 2^e
// once is the same as rounding n * c, but where n * c is beyond all floats, and the exponent the least, or where it is
// denormal: times 2^120 that is below 2^-6, and 0 in either way. Where every n * c is rounded to 0 the exponent does
// not matter.
constexpr int kMostAtOnce = 120;
template <int kDigits>
HW4_INLINE bool scaled_at_once(float largest, int exponent) {
    return largest == 0 || (exponent > Numbers<kDigits>::exponent_for(kLargestFloat) && exponent <= kMostAtOnce);
}
HW4_INLINE float factor_at_once(float c, int exponent) {
    return c * power(exponent < kMostAtOnce ? exponent : kMostAtOnce);
}

HW4_INLINE int digit(uint32_t bytes, int place) { return static_cast<int8_t>(bytes >> (8 * place)); }

// Those of a weight have no sign.
HW4_INLINE int weight_digit(int32_t weight, int place) { return weight >> (8 * place) & 255; }

HW4_INLINE int clamped(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

// Which of a row's l a key of a tile counts for.
HW4_INLINE int lane_of(int key) { return key / 2 % kLanes; }

HW4_INLINE float sum_of_lanes(const float (&l)[kLanes]) { return (l[0] + l[1]) + (l[2] + l[3]); }

// h is what a row's y were weighed with in all: combining sums of digits rounds down, half a unit a tile on average.
HW4_INLINE float fixed_result(float o, float h, float inverse, Factors scale) {
    return fused(h, 0.5f, o) * inverse * scale.first * scale.second;
}

} // namespace hw4::fixed
