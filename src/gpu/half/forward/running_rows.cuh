// The rows of a thread on their way through the keys. Sums of mma and of wgmma are spread alike over the lanes of a
// warp: a lane has columns 8j + 2 (lane % 4) + {0, 1} of row lane / 4 in sums 4j and 4j + 1, and of the row 8 below in
// 4j + 2 and 4j + 3. Four neighbouring lanes share their two rows.
//
// A row's bytes depend on its query and the keys that it sees, on nothing else: tiles of keys begin at multiples of
// their size, from the last that is seen to the first; sums of a row are added up in an order that is written here; a
// key that is not seen, in a tile that is, has the weight 0 and leaves every sum as it was. No step asks what other
// rows need.
#pragma once

#include "src/gpu/common/warp.cuh"
#include "src/gpu/half/forward/numbers.cuh"

namespace hw4::gpu::half_forward {

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// Scores of keys that a row does not see become -infinity: those from `seen` on, counted from the lane's first column,
// one of each row.
template <int kN>
__device__ __forceinline__ void hide_unseen(float (&s)[kN], int seen_first, int seen_second) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
        const int column = i / 4 * 8 + i % 2;
        if (column >= (i % 4 < 2 ? seen_first : seen_second)) s[i] = minus_infinity();
    }
}

struct RunningRows {
    // Weights are 2 to the power of scale * score - top, at most 2^kSlack: the top is a score that came first, and
    // stays until one is larger by more than that. So sums rarely have to be multiplied anew.
    static constexpr float kSlack = 8;

    float top[2] = {minus_infinity(), minus_infinity()};
    float sum[2] = {0, 0}; // of this lane's weights

    // Scores become weights. What was summed up with the earlier tops is to be multiplied by `factor`; where a top
    // stays, that is exactly 1. True where one does not: if none of a warp's has to be multiplied, its sums may be left
    // alone, since times 1 they would be the same.
    template <int kN>
    __device__ __forceinline__ bool weigh(float (&s)[kN], float scale, float (&factor)[2]) {
        bool raised[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float largest[2] = {s[2 * row], s[2 * row + 1]};
#pragma unroll
            for (int i = 4 + 2 * row; i < kN; i += 4) {
                largest[0] = fmaxf(largest[0], s[i]);
                largest[1] = fmaxf(largest[1], s[i + 1]);
            }
            float tile = fmaxf(largest[0], largest[1]);
            tile = fmaxf(tile, __shfl_xor_sync(kAllLanes, tile, 1));
            tile = fmaxf(tile, __shfl_xor_sync(kAllLanes, tile, 2));
            const float before = top[row];
            const float now = __fmul_rn(tile, scale);
            raised[row] = now > __fadd_rn(before, kSlack);
            top[row] = raised[row] ? now : before;
            const float base = top[row] == minus_infinity() ? 0.0f : top[row]; // nothing seen yet
            factor[row] = raised[row] ? power_of_2(__fsub_rn(before, base)) : 1.0f;
            float part[2] = {0, 0};
#pragma unroll
            for (int i = 2 * row; i < kN; i += 4) {
                s[i] = power_of_2(__fmaf_rn(s[i], scale, -base));
                s[i + 1] = power_of_2(__fmaf_rn(s[i + 1], scale, -base));
                part[0] = __fadd_rn(part[0], s[i]);
                part[1] = __fadd_rn(part[1], s[i + 1]);
            }
            sum[row] = __fmaf_rn(sum[row], factor[row], __fadd_rn(part[0], part[1]));
        }
        return raised[0] || raised[1];
    }

    // What the sums of values are to be multiplied by in the end, and the logarithm of the sum of exponentials.
    __device__ __forceinline__ void end(float (&inverse)[2], float (&lse)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float all = sum[row];
            all = __fadd_rn(all, __shfl_xor_sync(kAllLanes, all, 1));
            all = __fadd_rn(all, __shfl_xor_sync(kAllLanes, all, 2));
            inverse[row] = all == 0.0f ? 0.0f : __frcp_rn(all);
            constexpr float kLog2 = 0.693147180559945309f;
            lse[row] = all == 0.0f ? minus_infinity() : __fmaf_rn(top[row], kLog2, logf(all));
        }
    }
};

template <int kN>
__device__ __forceinline__ void multiply_rows(float (&o)[kN], const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < kN; ++i) o[i] = __fmul_rn(o[i], factor[i % 4 / 2]);
}

// Weights as the left operand of the next product: sixteen keys after the other, four words each.
template <class Number, int kN>
__device__ __forceinline__ void pack_weights(uint32_t (&p)[kN / 8][4], const float (&s)[kN]) {
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) p[i / 4][i % 4] = Number::pack(s[2 * i], s[2 * i + 1]);
}

} // namespace hw4::gpu::half_forward
