// Copies from global to shared memory that travel in the background, past the registers (cp.async, from compute
// capability 8.0 on). A thread groups those that it has started, and waits for groups in their order.
#pragma once

#include <cuda_pipeline_primitives.h>

namespace hw4::gpu {

// kBytes, 4, 8 or 16, at a boundary of as many. Not there: zeros, and nothing is read.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool there = true) {
    __pipeline_memcpy_async(to, from, kBytes, there ? 0 : kBytes);
}

// What was started since the last group, though it be nothing.
__device__ __forceinline__ void end_group_of_copies() { __pipeline_commit(); }

// Until at most so many groups, the latest, are on their way.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
    __pipeline_wait_prior(kLeft);
}

// Waits for all that this thread started.
__device__ __forceinline__ void finish_copies() {
    end_group_of_copies();
    wait_for_copies<0>();
}

} // namespace hw4::gpu
