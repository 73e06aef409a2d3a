// The contract "fixed": attention in integers, with one rounding where a number leaves them.
//
// Integer sums are exact in any order, so a tensor core, a CPU's dot-product instruction and a plain loop give the same
// bits. Floats occur in three places only: the scales, 2^x, and the running sums over tiles of keys. Every step:
//
//   tiles    keys come in tiles of 64, in order. A key that does not exist has weight 0.
//   scale    Q is multiplied by c * 16/21, c = log2(e) * scale (scaled_query), K and V by 21/16, so that scores are
//            exponents of 2. Other factors would work; with these, numbers up to 3, or 1, use more of the range of
//            integers in the next step.
//   digits   a number is stored as an integer below 2^23 and a power of two, x ~ n * 2^-e: e is the largest up to 149
//            for which the largest magnitude of its group stays within 0x7f7f7f, or, for denormals, one less
//            (exponent_for); n = x * 2^e rounded to nearest even. Groups: a row of Q; a tile of K; a tile of V. For V,
//            e is that of the largest float times 21/16 (tile_exponent) and n that of x * (21/16 * 2^floor(e/2))
//            * 2^(e - floor(e/2)), two products of floats (tile_factors).
//            n = n2*2^16 + n1*2^8 + n0, balanced digits from -128 to 127, which are unique.
//   score    x = combined(L0, L1, L2), in units of 2^-F, F = eq + ek - 24: L0 = sum q2*k2,
//            L1 = sum (q2*k1 + q1*k2), L2 = sum (q2*k0 + q1*k1 + q0*k2), over the columns. The three products of lower
//            weight are left out. Where F is above 23, x is cut to units of 2^-23, rounding down (Unit).
//   weight   p_j = 2^(x_j*2^-F - M - a/4), M the integer part of the tile's largest score, rounded down, and a from 1
//            to 4, so that M + a/4 is the next quarter above it: the exponent is an integer n and a fraction from 0 up
//            to 1, both exact. P_j is p_j in units of 2^-25/kappa (kappa_exp2), rounded to nearest even, an integer
//            (weight_of); kappa = 255/512, not a half, keeps it below 2^24 however it is rounded. Its digits are
//            its bytes, unsigned. Each tile has its own M and a, so that a weight is never lost against one in
//            another tile.
//   sums     for every column, y = combined(L0, L1, L2) of the digits of P and V, and S_i = sum P_j over the
//            tile's keys j with j/2 mod 4 = i, i from 0 to 3 (lane_of). With w = 2^(a/4) * 2^(M - R + ev_least - ev):
//            l_i = fma(S_i, 2^(a/4) * 2^(M - R), l_i),  o = fma(y, w, o),  h = h + w.  2^(a/4) is the nearest float
//            (quarter_power). R is the row's reference: the first tile's M, raised to a tile's M that exceeds it by
//            more than 30; l_i, o and h are then multiplied by 2^(R_old - R_new) first. ev_least is the least exponent
//            of all tiles of V in the batch, ev this tile's. Powers below 2^-126 count as 0. h is there because
//            combined() rounds down, half a unit a tile on average. M enters these sums as the nearest float, and
//            M - R, R + 30 and the exponents' sum are float additions: beyond 2^24 they round, and so do the scores.
//   result   l = (l_0 + l_1) + (l_2 + l_3),  O = fma(h, 1/2, o) * (1/l) * 16/21 * 2^(24 - ev_least), the last two
//            factors as two floats one after the other (result_factors).
//   mask     a key that a row does not see (src/problem/mask.h) has weight 0 and enters no maximum; a tile in which
//            the row sees nothing does not exist for it: no M, and nothing is added to l, o or h. A row that sees no
//            key gives O = +0. But digits are made once for all rows: the scale of a tile of K or V is that of all its
//            keys, and ev_least that of all tiles, visible or not. So a row is, to the bit, the attention of the keys
//            that it sees only where these keys end with a tile, and where no later V is so large
//            that powers of two sink below 2^-126.
//   window   refused, though it could be as the mask is, with the keys before the window as the hidden ones: no kernel
//            for a GPU has it, and a contract computes the same cases everywhere.
//   lengths  refused for the same reason, though each batch could be computed as if it had only its own keys. A decoded
//            row would have a prefill's bytes only where tiles end (mask).
//
// Scores that are whole numbers (F < 0) are compared as such: the exponent is (x_j - x_largest) * 2^-F - 1/4, M is
// x_largest * 2^-F as a float, and a is 1.
//
// The largest distance of a row from exact arithmetic, worst case upon worst case (report/contracts.md has the steps):
// with A, K, V the largest magnitudes of its Q*c, of K and of V, but at least 2^-126, and T tiles, a score is off by at
// most s = (5/4 d + 1) * 2^-19.9 * A * K + 2^-23 + 2^-22 * |score|, and O by V * (2e/(1-e) + 2^-14 + (T + 4) * 2^-22) +
// 2^-147, where e = 2^s - 1 + 4e-7 is below 1/2; else 2 replaces 2e/(1-e). Roundings are random in part, so on ordinary
// data a hundredth of that remains. A counts by row and K by tile: one huge number affects only its own row, or the
// scores of its own 64 keys. Where q * 16/21 * c is beyond all floats, with d = 1, the score is off by up to a tenth of
// itself.
//
// Defined for every case that f32 takes (domain.h) with d up to 256. A kernel may differ where no bit depends on it: in
// the order of integer sums, in extra columns or keys of zero digits and weights, in the treatment of weights below
// 2^-26 (their P is 0), and in the order in which maxima are taken.
#pragma once

#include "src/contracts/fixed/numbers.h"

namespace hw4::fixed {

constexpr int kTileKeys = 64;
constexpr int kDigits = 3; // of every number
constexpr int32_t kLargest = Numbers<kDigits>::kLargest;
constexpr float kKappa = 0x1.fep-2f;     // 255/512
constexpr double kOne = 0x1p25 * kKappa; // what a weight of 1 adds to l
constexpr int kDeepest = -26;            // P is 0 for weights below 2^-26
constexpr int kMostBits = 23;            // of a score's fraction
constexpr int kPowerBias = 152;          // the exponent field of 2^25

// ---- Numbers and digits

// The exponent e for a group with this largest magnitude: -106 to 149. Denormals are integers at 149.
HW4_INLINE int exponent_for(float largest) { return Numbers<kDigits>::exponent_for(largest); }
HW4_INLINE int tile_exponent(float largest) { return exponent_of_tile<kDigits>(largest); }
HW4_INLINE uint32_t digit_bytes(int32_t n) { return Numbers<kDigits>::digit_bytes(n); }

// The three sums of products of digits as one number, in units of 2^24; below 2^30 for up to 256 terms of numbers, and
// for 64 of a weight and a number.
HW4_INLINE int32_t combined(int32_t l0, int32_t l1, int32_t l2) { return l0 * 256 + l1 + (l2 >> 8); }

// ---- Weights

// The value of a score x of a row and a tile: (x >> cut) * 2^-bits, or x * 2^whole.
struct Unit {
    int cut;
    int bits;
    int whole;
};

HW4_INLINE Unit unit_of(int q_exponent, int k_exponent) {
    const int f = q_exponent + k_exponent - 24;
    return {clamped(f - kMostBits, 0, 31), clamped(f, 0, kMostBits), clamped(-f, 0, 127)};
}

// A tile's weights are relative to this: 2^(whole part + quarters/4), in units of 2^unit.whole where scores are whole.
struct TileTop {
    int32_t whole; // part of the largest score
    int quarters;  // 1 to 4
};

// For the tile's largest x after the cut.
HW4_INLINE TileTop tile_top(int32_t largest_x, Unit unit) {
    const int32_t fraction = largest_x & ((1 << unit.bits) - 1);
    return {largest_x >> unit.bits, ((fraction << 2) >> unit.bits) + 1};
}

// M.
HW4_INLINE float tile_reference(TileTop top, Unit unit) { return static_cast<float>(top.whole) * power(unit.whole); }

// 2^(quarters/4).
HW4_INLINE constexpr float quarter_power(int quarters) {
    return quarters == 1 ? 0x1.306fep0f : quarters == 2 ? 0x1.6a09e6p0f : quarters == 3 ? 0x1.ae89fap0f : 2.0f;
}

// kappa * 2^(g - 1) for g from 1 to 2, within 1.8e-7 of it.
template <class F>
HW4_INLINE F kappa_exp2(F g) {
    F y = fused(F(0x1.ea45d6p-11f), g, F(-0x1.a0450ep-13f));
    y = fused(y, g, F(0x1.3b5748p-6f));
    y = fused(y, g, F(0x1.b7f76ep-5f));
    y = fused(y, g, F(0x1.68d498p-3f));
    return fused(y, g, F(0x1.fc406ap-3f));
}

// A float from 1 to 2 with the fraction of the float that has these bits.
HW4_INLINE float with_fraction_of(uint32_t bits) {
#if defined(__CUDA_ARCH__)
    uint32_t both; // one instruction, where the compiler would take two
    asm("lop3.b32 %0, %1, 0x7fffff, 0x3f800000, 0xea;" : "=r"(both) : "r"(bits));
    return float_of(both);
#else
    return float_of((bits & 0x7fffffu) | 0x3f800000u);
#endif
}

// The power of two of that float.
HW4_INLINE float with_exponent_of(uint32_t bits) { return float_of(bits & 0xff800000u); }

// P before it is rounded, for a weight 2^n * 2^(g - 1), n at least -152; power_of_n is 2^25 * 2^n, or 0 at -152.
template <class F>
HW4_INLINE F weight_value(F g, F power_of_n) {
    return kappa_exp2(g) * power_of_n;
}

// P for a weight given as the bits of a float 2^25 * 2^n * g: g is 1 and the fraction of the exponent.
HW4_INLINE int32_t weight_of_power(uint32_t bits) {
    return nearest(weight_value(with_fraction_of(bits), with_exponent_of(bits)));
}

// These bits are power_bits(x, unit, bits_at(top)) where scores have a fraction.
HW4_INLINE uint32_t bits_at(TileTop top) {
    return (static_cast<uint32_t>(kPowerBias - top.whole) << 23) - (static_cast<uint32_t>(top.quarters) << 21);
}
HW4_INLINE uint32_t power_bits(int32_t x, Unit unit, uint32_t at) {
    return (static_cast<uint32_t>(x) << (kMostBits - unit.bits)) + at;
}

// P for any x up to the tile's largest, both after the cut.
HW4_INLINE int32_t weight_of(int32_t x, TileTop top, Unit unit) {
    const int64_t apart = int64_t{1} << clamped(unit.whole, 0, 31); // a difference of 1 is too much at 31
    const int64_t n = apart * ((x >> unit.bits) - int64_t{top.whole});
    if (n < kDeepest) return 0;
    if (unit.whole > 0)
        return weight_of_power((static_cast<uint32_t>(kPowerBias + static_cast<int>(n)) << 23) - (1u << 21));
    return weight_of_power(power_bits(x, unit, bits_at(top)));
}

// ---- Running sums

// 2^k for an integer-valued k up to 100; 0 below 2^-126.
HW4_INLINE float weight_of_tile(float k) {
    return float_of((bits_of(larger(k, -127.0f) + kRoundToInt) << 23) + (127u << 23));
}

// The same for an integer.
HW4_INLINE float weight_of_tile(int k) { return float_of(static_cast<uint32_t>((k > -127 ? k : -127) + 127) << 23); }

HW4_INLINE bool raises(float M, float row_reference) { return M > row_reference + kReferenceSlack; }

} // namespace hw4::fixed
