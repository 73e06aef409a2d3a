// Hopper's asynchronous matrix products, whatever they multiply: where operands are, and when they are done. PTX that
// CUDA C++ has no words for. Compiled for sm_90a only.
#pragma once

#include "src/gpu/common/shared_address.cuh"
#include "src/gpu/common/warp.cuh"

namespace hw4::gpu {

// A plane in shared memory, rows of kRowBytes, as the tensor cores read it. Only the lower half of a descriptor depends
// on where the plane is, so that moving it is an addition of 32 bits. kNextColumns: from one such plane to the next
// with more columns, where what is multiplied runs down the columns; along rows it is not looked at.
template <int kRowBytes, uint32_t kNextColumns = 16>
struct PlaneDescriptor {
    uint32_t low;

    static __device__ __forceinline__ PlaneDescriptor at(const void* plane) {
        return {uniform(((kNextColumns >> 4) << 16) | ((address_of(plane) & 0x3ffff) >> 4))};
    }
    __device__ __forceinline__ PlaneDescriptor plus(uint32_t bytes) const { return {low + (bytes >> 4)}; }
    __device__ __forceinline__ operator uint64_t() const {
        constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
        constexpr uint64_t kEightRows = 8 * kRowBytes;
        return (kSwizzle << 62) | ((kEightRows >> 4) << 32) | low;
    }
};

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// The compiler may not move uses of sums across this, nor the making of words.
template <class Word, int kN>
__device__ __forceinline__ void pin(Word (&words)[kN]) {
#pragma unroll
    for (int i = 0; i < kN; ++i) asm volatile("" : "+r"(words[i])::"memory");
}
template <int kN>
__device__ __forceinline__ void pin(float (&sums)[kN]) {
#pragma unroll
    for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

} // namespace hw4::gpu
