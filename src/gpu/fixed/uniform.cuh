// A warp whose lanes all do the same: values that they share, and one of them for what is done once.
#pragma once

#include <cstdint>

namespace hw4::gpu::fixed_point {

// The value in a register that all lanes share: the compiler cannot always tell, and would keep it in one for each
// lane, or move every operand's address there one by one.
__device__ __forceinline__ uint32_t uniform(uint32_t x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(~0u, x);
#else
    return x; // no kernel of this contract is for such cards
#endif
}

// True in one lane of a warp that has come together, without asking for the thread's number. For Hopper.
__device__ __forceinline__ bool is_elected() {
    unsigned elected = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(elected));
#endif
    return elected != 0;
}

} // namespace hw4::gpu::fixed_point
