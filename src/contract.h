// The arithmetic contract "f32": every rounding between the input bytes and the output bytes.
//
// Two programs print the same bytes when they perform the same IEEE-754 operations in the same order.
// What usually makes a CPU and a GPU differ is not the hardware (add, multiply, fma, divide and
// int<->float are correctly rounded on both) but everything around it: library exponentials, compilers
// that fuse a*b+c on one side only, sums whose order follows the tiling, and flushed denormals. So this
// header names each operation once, in one order, for both compilers:
//
//   scale    c = log2(e)/sqrt(d), one float per d; softmax is taken in base 2.
//   score    s_j: the columns in blocks of 32; each block is one fma chain of q[t]*k_j[t] in ascending t,
//            starting from +0, and the blocks' results are added in order. One chain over 64 columns
//            would double the error.
//   keys     are taken in tiles of 32; a row's reference is raised at most once a tile, before the
//            tile's weights are formed, and only when the tile's largest score asks for it (Reference).
//            Raising multiplies the running sums, L and o, by rescale_factor().
//   weight   p_j = 2^(c*s_j - M), M an INTEGER: changing M rescales every sum by a power of two, which
//            is exact. A float spans 2^+-126, so M needs to follow the scores only roughly: it is 0 while the
//            row's largest score is from -8 (seen in the first tile) to 72 in base-2 units, as in ordinary
//            data. Where it moves, underflow could make the moment show, so the tile-of-32 rule above fixes
//            the moment. A kernel may leave the maximum out for rows whose first tile's largest score is at
//            least -8 and that have no score above 72 or below -120: M is 0 and the clamp does nothing there.
//   sum      l: eight running sums. Of each tile lane g = 0..7 gets the sum of its keys 4g..4g+3, formed first,
//            u = ((p0+p1)+p2)+p3 with p = +0 for a key that does not exist; then L[g] = L[g] + u. After the last
//            tile l = ((L0+L1)+(L2+L3))+((L4+L5)+(L6+L7)). Four keys first, then the lane: no more additions
//            than one by one, but chains of N/32 instead of N/8, short enough to go without folding.
//   output   o[x] = fma(p_j, v_j[x], o[x]) in key order, in segments of 64 keys: after each, and after the last
//            key, total[x] = fma(total[x], rescale, o[x]), where rescale is rescale_factor() from the reference at
//            the fold before to the present one, and o starts again from +0. One sum over 16384 keys would have
//            three times the error. 64 keys are a tile of a GPU kernel: it sums them in registers that are free by
//            then and adds them to totals in registers too; totals in memory cost 2 %. Against segments of 256 keys,
//            for o and l, the error (rms) is 5 to 14 % smaller up to N = 2048 and 5 to 8 % larger at 32768, where
//            the largest rises from 4.7e-6 to 6.9e-6.
//   result   inv = 1/l, O[x] = fma(total[x], inv, +0); the +0 turns a -0 into +0.
//
// Rules for code that includes this file: contraction off (-ffp-contract=off, -fmad=false), no fast-math,
// denormals on, every fused operation written as fused(). A key or a column that does not exist may be
// padded with zeros and weight +0: that can only turn a -0 into +0 on the way, and so does the last step.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__FAST_MATH__)
#error "the contract cannot hold under fast-math"
#endif
#if defined(__FLT_EVAL_METHOD__) && !defined(__CUDA_ARCH__)
static_assert(__FLT_EVAL_METHOD__ == 0, "float expressions must be evaluated in float (no x87)");
#endif

// Always inlined, so that a translation unit built for a wider vector unit can never lend its copy of
// these functions to one that must run without it.
#if defined(__CUDACC__)
#define HW4_INLINE __host__ __device__ __forceinline__
#else
#define HW4_INLINE inline __attribute__((always_inline))
#endif

namespace hw4 {

constexpr const char* kContractName = "f32";

constexpr int kKeyTile = 32;      // keys per decision about the reference
constexpr int kScoreColumns = 32; // columns of one chain of a score
constexpr int kSegmentKeys = 64;  // keys per running sum of the output; a multiple of kKeyTile
constexpr int kSumLanes = 8;      // running sums of weights per row
constexpr int kLaneKeys = 4;      // consecutive keys of one lane
static_assert(kSegmentKeys % kKeyTile == 0 && kKeyTile == kSumLanes * kLaneKeys);

constexpr float kRoundToInt = 12582912.0f;  // 1.5*2^23: adding it rounds to an integer
constexpr float kHeadroom = 72.0f;          // M stays while no weight exceeds about 2^72
constexpr float kFootroom = 8.0f;           // M starts at 0 unless the first tile's largest score is below -8
constexpr float kDeepest = -120.0f;         // weights below 2^-120 count as 2^-120
constexpr float kIntegerReach = 2097152.0f; // 2^21: |M| up to here is exact in the magic addition

// The domain. Outside it fp32 scores or sums could overflow, so such input is refused (domain.h).
constexpr double kScoreLimit = 0x1p126; // sum_t |q[t]| * max|K| of every row
constexpr double kValueLimit = 0x1p52;  // N * max|V|: times a weight of at most 2^73 it stays below 2^126

// ---- The few operations everything is made of, for one float; vector types bring their own overloads.

HW4_INLINE float fused(float a, float b, float c) { return fmaf(a, b, c); }

// No NaN reaches this, and the sign of a zero maximum is lost in the next operation, so the conditional
// and the GPU's one-instruction maximum agree.
HW4_INLINE float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
    return fmaxf(a, b);
#else
    return a > b ? a : b;
#endif
}

HW4_INLINE uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    uint32_t u;
    std::memcpy(&u, &x, sizeof u);
    return u;
#endif
}

HW4_INLINE float float_of(uint32_t u) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(u);
#else
    float x;
    std::memcpy(&x, &u, sizeof x);
    return x;
#endif
}

// y * 2^e, where t = kRoundToInt + e: the low bits of t are e, so one shift and one integer add do it.
HW4_INLINE float add_exponent(float y, float t) { return float_of(bits_of(y) + (bits_of(t) << 23)); }

// ---- exp2

// 2^r for |r| <= 1/2: a degree-5 minimax polynomial with 2^0 == 1 exactly; at most 1.5e-7 relative error.
template <class F>
HW4_INLINE F exp2_fraction(F r) {
    F y = fused(r, F(0x1.5ba93ep-10f), F(0x1.3cec98p-7f));
    y = fused(y, r, F(0x1.c6b728p-5f));
    y = fused(y, r, F(0x1.ebf9b4p-3f));
    y = fused(y, r, F(0x1.62e42ap-1f));
    return fused(y, r, F(1.0f));
}

// 2^(x*c - M), given bias = kRoundToInt - M. x*c is never rounded on its own: n = rint(x*c) is exact and
// r = x*c - n is rounded once.
template <class F>
HW4_INLINE F exp2_scaled(F x, F c, F bias) {
    const F t = fused(x, c, bias);
    const F n = t - bias;
    const F r = fused(x, c, -n);
    return add_exponent(exp2_fraction(r), t);
}

// ---- One row's reference: what its weights are measured against

// c and its inverse for head size d. Computed on the host only (double sqrt and division are correctly
// rounded everywhere) and handed to kernels as values.
struct Scale {
    float c;
    float inv_c;
};

inline Scale scale_for(int64_t d) {
    const double log2_e = 0x1.71547652b82fep+0;
    const double root = std::sqrt(static_cast<double>(d));
    return {static_cast<float>(log2_e / root), static_cast<float>(root / log2_e)};
}

// A weight is 2^(c*(s - origin) - M). Ordinary rows have origin = 0 and M = 0 or another integer. Rows whose scores
// are beyond +-2^21 in base-2 units, where a float cannot hold an integer M and its fraction any more,
// have M = 0 and their largest score as origin.
struct Reference {
    float M;
    float origin;
    float bias;        // kRoundToInt - M
    float floor;       // s - origin below this weighs as if it were this
    float raise_above; // a score above this raises the reference

    HW4_INLINE bool covers(float score) const { return !(score > raise_above); }
    HW4_INLINE float weight(float score, Scale scale) const {
        return exp2_scaled(larger(score - origin, floor), scale.c, bias);
    }
};

// The reference of a row that has seen no key: any score raises it.
HW4_INLINE Reference empty_reference() {
    const float minus_inf = -HUGE_VALF;
    return {minus_inf, 0.0f, 0.0f, 0.0f, minus_inf};
}

HW4_INLINE bool within(float x, float least, float most) { return x >= least && x <= most; }

// The reference that belongs to a largest score.
HW4_INLINE Reference reference_at(float score, Scale scale) {
    const float exponent = score * scale.c;
    if (within(exponent, -kIntegerReach, kIntegerReach)) {
        const bool ordinary = within(exponent, -kFootroom, kHeadroom);
        const float M = ordinary ? 0.0f : fused(score, scale.c, kRoundToInt) - kRoundToInt;
        return {M, 0.0f, kRoundToInt - M, (M + kDeepest) * scale.inv_c, (M + kHeadroom) * scale.inv_c};
    }
    return {0.0f, score, kRoundToInt, kDeepest * scale.inv_c, score};
}

// 2^k for an integer-valued k <= 0; everything below 2^-126 becomes 0.
HW4_INLINE float power_of_two(float k) {
    const int exponent = static_cast<int>(larger(k, -127.0f));
    return float_of(static_cast<uint32_t>(127 + exponent) << 23);
}

// What sums measured against `from` are multiplied by when the reference becomes `to`.
HW4_INLINE float rescale_factor(const Reference& from, const Reference& to, Scale scale) {
    if (from.origin == 0.0f && to.origin == 0.0f) return power_of_two(from.M - to.M);
    const float from_score = from.origin == 0.0f ? from.M * scale.inv_c : from.origin;
    return to.weight(from_score, scale);
}

// ---- Orders of sums

// What a lane gets from a tile, given the weights of its four keys.
template <class F>
HW4_INLINE F lane_share(const F* p) {
    return ((p[0] + p[1]) + p[2]) + p[3];
}

template <class F>
HW4_INLINE F close_lanes(const F* L) {
    return ((L[0] + L[1]) + (L[2] + L[3])) + ((L[4] + L[5]) + (L[6] + L[7]));
}

// ---- The last step

template <class F>
HW4_INLINE F result(F o, F inv) {
    return fused(o, inv, F(0.0f));
}

} // namespace hw4
