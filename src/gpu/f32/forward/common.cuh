// What the exact kernels share: where the matrices stand, and reductions over a warp in the contract's order.
#pragma once

#include "src/gpu/kernels.h"

namespace hw4::gpu {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// The matrices of a batch, [tokens][dim] each.
struct BatchMatrices {
    const float* q; // rows args.qkv_stride apart
    const float* k;
    const float* v;
    float* out; // rows args.out_stride apart
};

__device__ __forceinline__ BatchMatrices matrices_of(const KernelArgs& args, int64_t batch) {
    const size_t matrix = static_cast<size_t>(args.tokens) * args.qkv_stride;
    const float* q = args.qkv + static_cast<size_t>(batch) * 3 * matrix;
    return {q, q + matrix, q + 2 * matrix, args.out + static_cast<size_t>(batch * args.tokens) * args.out_stride};
}

// Blocks of T::kRows query rows that a batch makes.
template <class T>
__host__ __device__ int64_t row_blocks_of(const KernelArgs& args) {
    static_assert(kQueryStep % T::kRows == 0, "no block of rows may reach over a cut");
    return (queries_of(args) + T::kRows - 1) / T::kRows;
}

// And all of them.
template <class T>
int64_t blocks_of(const KernelArgs& args) {
    return args.batches * row_blocks_of<T>(args);
}

__device__ __forceinline__ float warp_max(float x) {
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
        x = larger(x, __shfl_xor_sync(kAllLanes, x, distance));
    return x;
}

// ((L0+L1)+(L2+L3))+((L4+L5)+(L6+L7)) of lanes 0..7, in every lane: addition commutes, so the butterfly is the
// contract's tree.
__device__ __forceinline__ float closed_lanes(float lane_sum) {
    for (int distance = 1; distance < kSumLanes; distance *= 2)
        lane_sum += __shfl_xor_sync(kAllLanes, lane_sum, distance);
    return __shfl_sync(kAllLanes, lane_sum, 0);
}

} // namespace hw4::gpu
