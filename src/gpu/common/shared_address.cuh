// Shared memory by 32-bit address: one register for a place, constant distances from it in the instructions.
#pragma once

#include <cstdint>

namespace hw4::gpu {

using SharedAddress = uint32_t; // in bytes

__device__ __forceinline__ SharedAddress address_of(const void* shared) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ float* pointer_to(SharedAddress at) {
    return static_cast<float*>(__cvta_shared_to_generic(at));
}

// 1 to shared memory where `so`, without a branch. By several threads at once, if need be.
__device__ __forceinline__ void set_if(unsigned* flag, bool so) {
    asm volatile("{\n.reg .pred so;\nsetp.ne.u32 so, %1, 0;\n@so st.shared.u32 [%0], 1;\n}\n" ::"r"(address_of(flag)),
                 "r"(static_cast<unsigned>(so))
                 : "memory");
}

// kN floats as float4 that lie `step` bytes apart.
template <int kN>
__device__ __forceinline__ void load_floats(float (&to)[kN], SharedAddress from, int step) {
    static_assert(kN % 4 == 0, "read as float4");
#pragma unroll
    for (int part = 0; part < kN / 4; ++part) {
        const float4 x = *reinterpret_cast<const float4*>(pointer_to(from + part * step));
        to[4 * part + 0] = x.x;
        to[4 * part + 1] = x.y;
        to[4 * part + 2] = x.z;
        to[4 * part + 3] = x.w;
    }
}

__device__ __forceinline__ void store4(SharedAddress to, float x, float y, float z, float w) {
    *reinterpret_cast<float4*>(pointer_to(to)) = make_float4(x, y, z, w);
}

} // namespace hw4::gpu
