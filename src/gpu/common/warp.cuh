// A warp: the maximum over its lanes, values that all lanes share, one elected lane.
#pragma once

#include "src/contracts/f32/forward.h"

namespace hw4::gpu {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// The largest value, for every lane.
__device__ __forceinline__ float warp_max(float x) {
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
        x = larger(x, __shfl_xor_sync(kAllLanes, x, distance));
    return x;
}

// The same in one instruction, for integers, and for floats that are all non-negative: they compare like their bits.
// For kernels for GPUs from compute capability 8.0 on.
__device__ __forceinline__ int warp_max(int x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAllLanes, x);
#else
    return x;
#endif
}

__device__ __forceinline__ float warp_max_of_magnitudes(float x) {
#if __CUDA_ARCH__ >= 800
    return float_of(__reduce_max_sync(kAllLanes, bits_of(x)));
#else
    return x;
#endif
}

// The value in a uniform register: the compiler cannot always tell that all lanes share it, and would keep a copy for
// each lane, or move every address there one by one. From compute capability 8.0 on.
__device__ __forceinline__ uint32_t uniform(uint32_t x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(kAllLanes, x);
#else
    return x;
#endif
}

__device__ __forceinline__ float uniform(float x) { return float_of(uniform(bits_of(x))); }

// True in one lane of a converged warp, without asking for the thread's number. For Hopper.
__device__ __forceinline__ bool is_elected() {
    unsigned elected = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(elected));
#endif
    return elected != 0;
}

} // namespace hw4::gpu
