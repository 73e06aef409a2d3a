// What a pair of a query and a key is, and how gradients leave.
#pragma once

#include "src/gpu/half/forward/numbers.cuh"

namespace hw4::gpu::half_backward {

// P. Where the origin is 0, as it is unless scores are huge, nothing is taken from the score.
__device__ __forceinline__ float weight_of(float score, float origin, float level, float log2_scale) {
    return half_forward::power_of_2(__fmaf_rn(__fsub_rn(score, origin), log2_scale, -level));
}

// Numbers of the type, that become infinite where they are too large: who reads them refuses those.
template <class Number>
struct GradientsOf : Number {
    static __device__ __forceinline__ float finite(float x) { return x; }
};

} // namespace hw4::gpu::half_backward
