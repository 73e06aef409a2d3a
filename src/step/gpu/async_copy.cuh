// Copies from global to shared memory in the background (cp.async) between 32-bit shared and byte addresses, for the
// products. Where `there` is false the destination gets zeros and nothing is read.
#pragma once

#include "src/gpu/common/shared_memory.cuh"

namespace hw4::step {

using gpu::SharedAddress;

__device__ __forceinline__ void copy_float(SharedAddress to, const char* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0));
#endif
}

__device__ __forceinline__ void copy_four(SharedAddress to, const char* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
#endif
}

// A group of what was started since the last one; and until only the latest kLeft groups are on their way. Shared
// memory is not read or written across these two, so the copies themselves need not keep the order of other accesses.
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// first + row * stride, in one instruction.
__device__ __forceinline__ const char* at_row(const char* first, uint32_t row, uint32_t stride) {
    const char* at;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(row), "r"(stride), "l"(first));
    return at;
}

} // namespace hw4::step
