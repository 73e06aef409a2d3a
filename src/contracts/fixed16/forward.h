// The contract "fixed16": attention in integers of two digits, where "fixed" has three. Half as many products, for less
// accurate numbers: errors are a tenth of bfloat16's, or smaller where the numbers of a row or tile are of similar
// size. All else is as in src/contracts/fixed/forward.h.
//
//   tiles    of 128 keys.
//   digits   |n| <= 0x7f7f, n = n1*2^8 + n0. Groups, factors and roundings are as in "fixed"; e is the largest up to
//            141. A row of Q has e at most 28 less the least e of the unit's tiles of K, so that F, below, is at most
//            12 in the tile of the largest keys.
//   score    x = combined(L0, L1), in units of 2^-F, F = eq + ek - 16: L0 = sum q1*k1, L1 = sum (q1*k0 + q0*k1). The
//            product of lowest weight is left out. Where F is above 12, x is cut to units of 2^-12, rounding down.
//   2^x      for x = n + i/4096 is 2^n * table[i], i from 0 to 4095: the float nearest to 2^(i/4096) or a neighbour of
//            it, as the GPUs' own instruction gives it (exp2_table.inc), at most 1.31 * 2^-23 off. Scores have no
//            more fraction bits than that.
//   weight   m = x_largest * 2^-F, of the tile's largest score. P_j = 2^(16 - 2^-8 + (x_j - x_largest)*2^-F),
//            rounded to nearest even, an integer up to 65359; where the exponent is below 0, P_j is 1 above -1, else 0.
//            Its digits are its bytes, unsigned. 16 - 2^-8 is a multiple of 2^-12, as scores are, and leaves room
//            above P.
//   sums     y = combined(L0, L1) of the digits of P and V, and S_i as in "fixed". With w = 2^-96 * 2^max(m - R +
//            96, 0) and u = w * 2^(ev_least - ev): l_i = fma(S_i, w, l_i),  o = fma(y, u, o),  h = h + u. R is the
//            row's reference: the first tile's m, raised to a tile's m that exceeds it by more than 30; l_i, o and h
//            are then multiplied by 2^-96 * 2^max(R_old - R_new + 96, 0) first. Differences of m and R are floats'.
//            Powers 2^(ev_least - ev) below 2^-126 count as 0.
//   result   l = (l_0 + l_1) + (l_2 + l_3),  O = fma(h, 1/2, o) * (1/l) * 16/21 * 2^(16 - ev_least), the last two
//            factors as two floats one after the other.
//   mask     as in "fixed", and the least e of K is that of all tiles, too, visible or not: a row is, to
//            the bit, the attention of the keys that it sees where these keys end with a tile, no other key is so
//            large that it changes the row's e, and no later V is so large that powers of two sink below 2^-126.
//
// The error against exact arithmetic: report/contracts.md.
//
// Defined for what "fixed" is defined for. A kernel may differ where no bit depends on it: in the order of integer
// sums, in extra columns or keys of zero digits and weights, in the order in which maxima are taken.
#pragma once

#include "src/contracts/fixed/numbers.h"

namespace hw4::fixed16 {

using fixed::Factors;
using fixed::factors;
using fixed::kLanes;
using fixed::kMostColumns;
using fixed::kReferenceSlack;
using fixed::power;

constexpr int kTileKeys = 128;
constexpr int kDigits = 2;        // of every number
constexpr int kFractionBits = 12; // of a score
constexpr int kTableSize = 1 << kFractionBits;
constexpr float kTop = 16.0f - 0x1p-8f;       // log2 of what the largest weight of a tile adds to l
constexpr double kOne = 0x1.fe9d96b2a23d9p15; // 2^kTop: what a weight of 1 adds to l
constexpr float kLeastLead = -96.0f;          // the least difference of a tile's m and R; smaller ones count as this

using Numbers = fixed::Numbers<kDigits>;

HW4_INLINE int tile_exponent(float largest) { return fixed::exponent_of_tile<kDigits>(largest); }

// For a row of Q with this largest |q * query_factor(c)|.
HW4_INLINE int row_exponent(float largest, int least_k_exponent) {
    const int e = Numbers::exponent_for(largest);
    const int most = 16 + kFractionBits - least_k_exponent;
    return e < most ? e : most;
}

// The two sums of products of digits as one number, in units of 2^16; below 2^22 for up to 256 terms of numbers, and
// for 128 of a weight and a number.
HW4_INLINE int32_t combined(int32_t l0, int32_t l1) { return l0 + (l1 >> 8); }

// The value of a score x of a row and a tile: (x >> cut) * value.
struct Unit {
    int cut;
    float value; // 2^-12 or more
};

HW4_INLINE Unit unit_of(int q_exponent, int k_exponent) {
    const int f = q_exponent + k_exponent - 16;
    return {fixed::clamped(f - kFractionBits, 0, 31), power(fixed::clamped(-f, -kFractionBits, 127))};
}

// ---- Powers of 2

struct Exp2Table {
    uint32_t fraction[kTableSize];
};

constexpr Exp2Table kExp2Table = {{
#include "src/contracts/fixed16/exp2_table.inc"
}};

// 2^(n/4096) for n from 0 up to 127 * 4096, given the table's entry at n % 4096.
HW4_INLINE float exp2_at(int32_t n, uint32_t fraction) {
    return float_of((static_cast<uint32_t>(127 + (n >> kFractionBits)) << 23) + fraction);
}

// P for the exponent in units of 2^-12; the entry is that of exponent % 4096 if it is not negative.
HW4_INLINE int32_t weight_at(int32_t exponent, uint32_t fraction) {
    if (exponent < 0) return exponent > -kTableSize ? 1 : 0;
    return fixed::nearest(exp2_at(exponent, fraction));
}

// The exponent of P in these units, for any x up to the tile's largest, both after the cut; any number up to -4096
// where the exponent is -4096 or less.
HW4_INLINE int32_t weight_exponent(int32_t x, int32_t largest_x, Unit unit) {
    const float t = fused(static_cast<float>(x - largest_x), unit.value, kTop);
    return static_cast<int32_t>(larger(t, -1.0f) * kTableSize);
}

// The exponent of the weight of a tile with m `lead` above R, in the same units and without a factor 2^-96.
HW4_INLINE int32_t lead_exponent(float lead) {
    return static_cast<int32_t>(larger(lead - kLeastLead, 0.0f) * kTableSize);
}
HW4_INLINE float tile_weight(int32_t exponent, uint32_t fraction) { return exp2_at(exponent, fraction) * 0x1p-96f; }

HW4_INLINE bool raises(float m, float row_reference) { return m - row_reference > kReferenceSlack; }

// 2^(least exponent of V's tiles - this tile's).
HW4_INLINE float value_weight(int less) { return less < -126 ? 0.0f : power(less); }

} // namespace hw4::fixed16
