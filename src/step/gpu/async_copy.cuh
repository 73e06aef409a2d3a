// Copies from global to shared memory in the background (cp.async) between 32-bit shared and byte addresses, for the
// products. Where `there` is false the destination gets zeros and nothing is read.
#pragma once

#include "src/gpu/common/shared_memory.cuh"

namespace hw4::step {

using gpu::SharedAddress;

__device__ __forceinline__ void copy_float(SharedAddress to, const char* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
#endif
}

__device__ __forceinline__ void copy_four(SharedAddress to, const char* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
#endif
}

// first + row * stride, in one instruction.
__device__ __forceinline__ const char* at_row(const char* first, uint32_t row, uint32_t stride) {
    const char* at;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(row), "r"(stride), "l"(first));
    return at;
}

} // namespace hw4::step
