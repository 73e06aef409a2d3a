// Shared by the kernels of f32: where the matrices are, and the sum over a warp in the contract's order.
#pragma once

#include "src/gpu/common/forward_args.h"
#include "src/gpu/common/warp.cuh"

namespace hw4::gpu {

// The first rows of a unit's matrices.
struct UnitMatrices {
    const float* q;
    const float* k;
    const float* v;
    float* out;
};

__device__ __forceinline__ UnitMatrices matrices_of(const ForwardArgs& args, uint32_t unit) {
    const uint32_t kv_unit = args.kv_unit(unit);
    return {args.q.of(unit), args.k.of(kv_unit), args.v.of(kv_unit), args.out.of(unit)};
}

// Blocks of T::kRows query rows in a unit.
template <class T>
__host__ __device__ int64_t row_blocks_of(const ForwardArgs& args) {
    return (args.queries + T::kRows - 1) / T::kRows;
}

// Keys that some row of such a block sees, that is, the keys of its last row.
template <class T>
__device__ __forceinline__ int64_t seen_by_block(const ForwardArgs& args, int64_t first_row) {
    return args.sight.of((first_row + T::kRows < args.queries ? first_row + T::kRows : args.queries) - 1);
}

// Blocks of query rows in all units.
template <class T>
int64_t blocks_of(const ForwardArgs& args) {
    return int64_t{args.units} * row_blocks_of<T>(args);
}

// ((L0+L1)+(L2+L3))+((L4+L5)+(L6+L7)) of lanes 0..7, in every lane: addition commutes, so the butterfly is the
// contract's tree.
__device__ __forceinline__ float closed_lanes(float lane_sum) {
    for (int distance = 1; distance < kSumLanes; distance *= 2)
        lane_sum += __shfl_xor_sync(kAllLanes, lane_sum, distance);
    return __shfl_sync(kAllLanes, lane_sum, 0);
}

} // namespace hw4::gpu
