// The arithmetic contract "fixed": attention in integers, with one rounding wherever a number leaves them.
//
// Integer sums are exact in any order, so a tensor core, a CPU's dot-product instruction and a plain loop give the
// same bits. Floats enter in three places only: the scales, 2^x, and the running sums over tiles of keys. Every step:
//
//   tiles    keys are taken in tiles of 64, in order. A key that does not exist has weight 0.
//   digits   a number is stored as an integer below 2^23 and a power of two, x ~ n * 2^-e: e is the largest for which
//            the largest magnitude of its group stays within 0x7f7f7f (exponent_for), n = x * 2^e rounded to nearest
//            even. Groups: a row of Q; a tile of K; a tile of V. n = n2*2^16 + n1*2^8 + n0, balanced digits from -128
//            to 127, the only such ones.
//   score    x = combined(L0, L1, L2), in units of 2^24 / 2^(eq + ek): L0 = sum q2*k2, L1 = sum (q2*k1 + q1*k2),
//            L2 = sum (q2*k0 + q1*k1 + q0*k2), over the columns. The three products of lower weight are left out.
//   weight   p_j = 2^(c'*x_j - M), c' = log2(e)/sqrt(d) in x's units, M the integer next to c' times the tile's
//            largest x. As an integer P_j = W_j - 0x8080, where W_j (weight_word) has the digits of P_j in its bytes.
//            P_j is p_j in units of 2^-24/kappa; kappa = 45/64 keeps W_j below 2^24. Each tile has its own M, so that
//            a weight is never lost against one in another tile.
//   sums     S = sum P_j and, for every column, y = combined(L0, L1, L2) of P's and V's digits likewise. With
//            w = 2^(M - R + ev_least - ev):  l = fma(S, 2^(M - R), l),  o = fma(y, w, o),  h = h + w.  R is the row's
//            reference: the first tile's M, raised to a tile's M that exceeds it by more than 30; l, o and h are then
//            multiplied by 2^(R_old - R_new) first. ev_least is the least exponent of all tiles of V in the batch, ev
//            this tile's. Powers below 2^-126 count as 0. h is there because combined() rounds down, half a unit a tile
//            on average.
//   result   O = fma(h, 1/2, o) * (1/l) * 2^(24 - ev_least), the last factor as two powers of two one after the other.
//
// Where |c'*x| of a tile's largest x exceeds 2^21, a float cannot hold both that integer and a fraction. Weights are
// then taken from x_j - x_largest, p_j = 2^(c'*(x_j - x_largest)), and M is c'*x_largest rounded to an integer.
//
// Defined for every case that f32 takes (domain.h) with d up to 256. What may be done otherwise, because no bit depends
// on it: the order of integer sums; more columns or keys of zero digits and weights; any treatment of weights below
// 2^-40, whose W is 0x8080; any order of tiles' maxima.
#pragma once

#include "contract.h"

namespace hw4::fixed {

constexpr const char* kContractName = "fixed";

constexpr int kTileKeys = 64;
constexpr int kMostColumns = 256;                  // |x| stays below 2^31 up to here
constexpr int kDigits = 3;                         // of every number
constexpr int32_t kLargest = 0x7f7f7f;             // largest balanced number of three digits
constexpr uint32_t kMiddle = 0x8080;               // what turns balanced lower digits into bytes
constexpr float kKappa = 0x1.68p-1f;               // 45/64
constexpr float kPowerBias = kRoundToInt + 151.0f; // adding it rounds to an integer, with a float's exponent of 2^24
constexpr float kReferenceSlack = 30.0f;           // R stays while no M exceeds it by more
constexpr float kShallowest = -40.0f;              // weights below 2^-40 are 0, at this scale as at any below
constexpr int kLeastScale = -100;                  // c' is at least c*2^-100: scores of 0 either way

// ---- Numbers and digits

// The exponent e for a group whose largest magnitude this is: -106 to 149. Denormals are integers at 149.
HW4_INLINE int exponent_for(float largest) { return 149 - static_cast<int>((bits_of(largest) + 0x10101u) >> 23); }

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

HW4_INLINE int32_t nearest(float x) {
#if defined(__CUDA_ARCH__)
    return __float2int_rn(x);
#else
    return static_cast<int32_t>(std::nearbyint(x));
#endif
}

HW4_INLINE int32_t quantised(float x, Factors scale) { return nearest(x * scale.first * scale.second); }

// The bytes of this are the digits, as two's complement: 0 the lowest.
HW4_INLINE uint32_t digit_bytes(int32_t n) { return (static_cast<uint32_t>(n) + 0x808080u) ^ 0x808080u; }

HW4_INLINE int digit(uint32_t bytes, int place) { return static_cast<int8_t>(bytes >> (8 * place)); }

// The three sums of products of digits as one number, in units of 2^24; below 2^31 for up to 256 terms of numbers, or
// 64 of a weight and a number.
HW4_INLINE int32_t combined(int32_t l0, int32_t l1, int32_t l2) { return l0 * 256 + l1 + (l2 >> 8); }

// ---- Weights

// c' of a row and a tile, given c of the head size.
HW4_INLINE float score_scale(float c, int q_exponent, int k_exponent) {
    const int k = 24 - q_exponent - k_exponent;
    return c * power(k < kLeastScale ? kLeastScale : k);
}

// What the weights of a row and a tile are measured against.
struct TileReference {
    float M;
    float bias;     // kPowerBias - M, or kPowerBias where weights are taken from differences
    int32_t origin; // subtracted from every x
};

HW4_INLINE TileReference tile_reference(int32_t largest_x, float scale) {
    const float x = static_cast<float>(largest_x);
    const float exponent = x * scale;
    if (within(exponent, -kIntegerReach, kIntegerReach)) {
        const float M = fused(x, scale, kRoundToInt) - kRoundToInt;
        return {M, kPowerBias - M, 0};
    }
    return {rintf(exponent), kPowerBias, largest_x};
}

// kappa * 2^r for |r| <= 1/2, within 1.7e-7 of it.
template <class F>
HW4_INLINE F kappa_exp2(F r) {
    F y = fused(r, F(0x1.e8e6p-11f), F(0x1.bdacb6p-8f));
    y = fused(y, r, F(0x1.3fb8c8p-5f));
    y = fused(y, r, F(0x1.59eb92p-3f));
    y = fused(y, r, F(0x1.f310dcp-2f));
    return fused(y, r, F(kKappa));
}

// 2^24 * 2^e where t = kPowerBias + e: its low bits are the exponent's.
HW4_INLINE float shifted_power(float t) { return float_of(bits_of(t) << 23); }

// W of a score s = (float)(x - origin), whose weight is known to be at least 2^-140.
template <class F>
HW4_INLINE F weight_value(F s, F scale, F bias) {
    const F t = fused(s, scale, bias);
    const F n = t - bias;
    const F r = fused(s, scale, -n);
    return fused(kappa_exp2(r), shifted_power(t), F(static_cast<float>(kMiddle)));
}

// The same for any score up to the tile's largest.
HW4_INLINE uint32_t weight_word(int32_t x, const TileReference& reference, float scale) {
    const float s = static_cast<float>(x - reference.origin);
    const float deepest = kPowerBias + kShallowest;
    if (fused(s, scale, reference.bias) < deepest) return kMiddle;
    return static_cast<uint32_t>(nearest(weight_value(s, scale, reference.bias)));
}

// ---- Running sums

HW4_INLINE bool raises(float M, float row_reference) { return M > row_reference + kReferenceSlack; }

HW4_INLINE float fixed_result(float o, float h, float inverse, Factors scale) {
    return fused(h, 0.5f, o) * inverse * scale.first * scale.second;
}

} // namespace hw4::fixed
