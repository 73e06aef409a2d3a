// The contract "f32" for backward: the gradients dQ, dK, dV of sum(O * dO), with every rounding. Forward's header
// (forward.h) defines scores, weights, references and l, and has the rules for code that includes it.
//
//   dot      of two rows: as a score, chains of 32 columns from +0, their results added in order.
//   row i    what forward leaves of the row: its reference, l, and O as written. inv = 1/l, D_i = dot(dO_i, O_i).
//   pair     of a query i and a key j that it sees:
//              P  = weight * inv          the weight of dot(q_i, k_j) against the reference that forward ended with
//              dP = dot(dO_i, v_j)
//              dS = P * (dP - D_i)        two roundings
//            No logsumexp: it would need a logarithm that is the same everywhere, and its rounding to a float would put
//            one error on the whole row (16 to 24 % more, rms). M, origin and l are exact.
//   sums     dV_j = sum_i P dO_i,  dK_j = sum_i dS q_i,  dQ_i = sum_j dS k_j, each column for itself. The summed rows
//            are split into segments of 64 and groups of 1024, counted from row 0: a segment is one fma chain from +0,
//            its rows ascending; a group is +0 plus its segments; the total is +0 plus the groups. dK, dV: segments and
//            groups ascend. dQ: segments and groups DESCEND, the last keys first (and the keys of a segment ascend).
//            A kernel that computes each pair once, key block by key block, and passes dQ from block to block can
//            follow this order under a causal mask without waiting: key block n begins at query block n, and of two
//            neighbours the later one is always ahead. For other kernels the order costs nothing. One chain over 4096
//            rows would have two to three times the error. Groups reduce the error by a fifth at 16384 rows and let the
//            work be split there.
//   heads    that share keys and values: dK and dV are +0 plus the totals of the heads of queries, ascending.
//   result   dV = total + 0;  dQ, dK = fma(total, g, +0), g = the scale as a float. An exact zero is +0; a
//            negative total that g makes smaller than any float is -0.
//   mask     a pair that the mask hides does not exist. A kernel may carry it with P and dS = +0 or -0, by selection: a
//            hidden score may be far above the reference, where exp2_scaled() leaves the floats. A query that sees no
//            key has no pairs and dQ = +0; a key that no query sees has dK = dV = +0.
//
// What may differ between machines without changing a bit: tiles of whole segments, the division of work, whether P and
// dS are stored or recomputed, a split of the work at groups and heads with the parts added in order afterwards, and
// whether hidden or padded pairs are left out or carried: an extra zero can only turn a -0 into +0 on the way, and the
// next sum, which begins with +0, does so anyway.
#pragma once

#include "src/contracts/f32/forward.h"
#include "src/contracts/row_statistics.h"

namespace hw4 {

constexpr int kSegmentRows = 64; // of one fma chain
constexpr int kGroupRows = 1024; // their segments are added up before they join the total
static_assert(kGroupRows % kSegmentRows == 0);

// The domain, besides forward's (domain.h): twice this bound, the difference dP - D, and the roundings stay finite.
constexpr double kGradientLimit = 0x1p124;

HW4_INLINE float dot(const float* a, const float* b, int64_t d) {
    float sum = 0;
    for (int64_t first = 0; first < d; first += kScoreColumns) {
        float chain = 0;
        for (int64_t t = first; t < d && t < first + kScoreColumns; ++t) chain = fused(a[t], b[t], chain);
        sum += chain;
    }
    return sum;
}

// The reference of a row from its statistics: the one that forward ended with, or had at some key.
HW4_INLINE Reference reference_of(const RowStatistics& row, Scale scale) {
    const float most = row.origin == 0.0f ? (row.M + kHeadroom) * scale.inv_c : row.origin;
    return {row.M, row.origin, kRoundToInt - row.M, (row.M + kDeepest) * scale.inv_c, most};
}

// 0 for a row that sees no key.
HW4_INLINE float inverse_of(const RowStatistics& row) { return row.l > 0 ? 1.0f / row.l : 0.0f; }

// ---- A pair

template <class F>
HW4_INLINE F probability(F weight, F inv) {
    return weight * inv;
}

template <class F>
HW4_INLINE F score_gradient(F P, F dP, F D) {
    return P * (dP - D);
}

// ---- The last step

// The result for dQ and dK.
template <class F>
HW4_INLINE F scaled_gradient(F total, F g) {
    return fused(total, g, F(0.0f));
}

template <class F>
HW4_INLINE F value_gradient(F total) {
    return total + F(0.0f);
}

} // namespace hw4
