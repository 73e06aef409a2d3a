// What the contracts "fixed" and "fixed16" have in common: numbers as integers of a few digits, how floats become such
// integers, the factors before and after, and the order in which a row's weights are added up. Their headers say how
// they use it.
#pragma once

#include "src/contracts/f32/forward.h"

namespace hw4::fixed {

constexpr int kMostColumns = 256;        // sums of products of digits stay within their integers up to here
constexpr float kReferenceSlack = 30.0f; // a row's reference stays while no tile exceeds it by more
constexpr int kLanes = 4;                // running sums of a row's weights

// x ~ n * 2^-e with integers |n| <= kLargest: n has kDigits balanced digits, from -128 to 127, which are unique.
template <int kDigits>
struct Numbers {
    static_assert(kDigits == 2 || kDigits == 3);
    static constexpr int kBitsLess = 8 * (3 - kDigits);
    static constexpr int32_t kLargest = 0x7f7f7f >> kBitsLess;
    static constexpr uint32_t kBias = 0x808080u >> kBitsLess; // 128 in every digit

    // The exponent e for a group with this largest magnitude: the largest up to 149 (141 with two digits) for which the
    // magnitude stays within kLargest; for denormals one less.
    static HW4_INLINE int exponent_for(float largest) {
        constexpr uint32_t kRoom =
            kDigits == 3 ? 0x10101u : 0x10100u; // lifts magnitudes that round above kLargest to 2^n
        return 149 - kBitsLess - static_cast<int>((bits_of(largest) + kRoom) >> 23);
    }

    // The bytes of this are the digits plus 128: 0 the lowest.
    static HW4_INLINE uint32_t biased_digits(int32_t n) { return static_cast<uint32_t>(n) + kBias; }

    // The bytes of this are the digits, as two's complement.
    static HW4_INLINE uint32_t digit_bytes(int32_t n) { return biased_digits(n) ^ kBias; }
};

// 2^e as a product of two floats. Multiplied one after the other they lose only bits that round to 0 anyway.
struct Factors {
    float first;
    float second;
};

HW4_INLINE float power(int exponent) { return float_of(static_cast<uint32_t>(127 + exponent) << 23); }

HW4_INLINE Factors factors(int e) {
    const int half = e >> 1;
    return {power(half), power(e - half)};
}

// K and V are multiplied by kWiden, and Q and the result by kNarrow to make up for it. Other factors would work; with
// these, numbers up to 3, or 1, use more of the range of their integers.
constexpr float kWiden = 1.3125f;         // 21/16
constexpr float kNarrow = 0x1.861862p-1f; // 16/21

// For a tile of K or V with this largest magnitude. Beyond all floats the exponent is the least either way.
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

// A float added to this becomes an integer with that bias.
constexpr float kRoundToBiased = 0x1.8p23f + static_cast<float>(Numbers<2>::kBias);

// biased_digits() of quantised() for a number with two digits, in the lower half of a word; the upper half is
// undefined. The second factor is a power of 2, so only the addition rounds, to integers: ties go to even ones, since
// an even one was added. Where a denormal would lose bits, the result is 0 either way.
HW4_INLINE uint32_t two_biased_digits(float x, Factors scale) {
    return bits_of(fused(x * scale.first, scale.second, kRoundToBiased));
}

// The same for biased_digits(nearest(x * factor)), for two digits that are scaled at once (below): the product is
// rounded first.
HW4_INLINE uint32_t two_biased_digits_at_once(float x, float factor) { return bits_of(x * factor + kRoundToBiased); }

constexpr float kLargestFloat = 0x1.fffffep127f;

// Replaces an infinite number by the largest finite one of its sign.
HW4_INLINE float within_floats(float x) { return larger(-larger(-x, -kLargestFloat), -kLargestFloat); }

// The factor of Q, for a problem's c.
HW4_INLINE float query_factor(float c) { return c * kNarrow; }

// q * factor; the largest float where that is beyond all floats, which can only happen with d = 1.
HW4_INLINE float scaled_query(float q, float factor) { return within_floats(q * factor); }

// Whether one multiplication, nearest(n * factor_at_once(c, exponent)), equals quantised(scaled_query(n, c),
// factors(exponent)) for every number n of a row with this largest |n * c| and this exponent. Rounding n * c * 2^e once
// is the same as rounding n * c, except where n * c is beyond all floats (then the exponent is the least) or is
// denormal (then times 2^120 it is below 2^-6, and 0 either way). If every n * c rounds to 0 any exponent will do.
constexpr int kMostAtOnce = 120;
template <int kDigits>
HW4_INLINE bool scaled_at_once(float largest, int exponent) {
    return largest == 0 || (exponent > Numbers<kDigits>::exponent_for(kLargestFloat) && exponent <= kMostAtOnce);
}
HW4_INLINE float factor_at_once(float c, int exponent) {
    return c * power(exponent < kMostAtOnce ? exponent : kMostAtOnce);
}

HW4_INLINE int digit(uint32_t bytes, int place) { return static_cast<int8_t>(bytes >> (8 * place)); }

// The digits of a weight are unsigned.
HW4_INLINE int weight_digit(int32_t weight, int place) { return weight >> (8 * place) & 255; }

HW4_INLINE int clamped(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

// Which of a row's l the weight of this key is added to.
HW4_INLINE int lane_of(int key) { return key / 2 % kLanes; }

HW4_INLINE float sum_of_lanes(const float (&l)[kLanes]) { return (l[0] + l[1]) + (l[2] + l[3]); }

// h is the sum of the factors of a row's y: combining sums of digits rounds down, half a unit per tile on average.
HW4_INLINE float fixed_result(float o, float h, float inverse, Factors scale) {
    return fused(h, 0.5f, o) * inverse * scale.first * scale.second;
}

} // namespace hw4::fixed
