// How one block tells another through global memory that something is there: what a thread wrote before its release,
// and with a barrier before it what its block wrote, is seen by whoever acquires the word after.
#pragma once

namespace hw4::gpu {

__device__ __forceinline__ unsigned load_acquire(const unsigned* word) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ void store_release(unsigned* word, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

} // namespace hw4::gpu
