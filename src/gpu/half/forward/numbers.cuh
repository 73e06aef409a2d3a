// 16-bit numbers, and powers of 2.
#pragma once

#include <cstdint>

namespace hw4::gpu::half_forward {

struct Bf16 {
    static __device__ __forceinline__ float finite(float x) { return x; } // sums are far below the largest bf16
    static __device__ __forceinline__ float low(uint32_t word) { return __uint_as_float(word << 16); }
    static __device__ __forceinline__ float high(uint32_t word) { return __uint_as_float(word & 0xffff0000u); }
    // Rounded to nearest, `low` in the lower half of the word.
    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        uint32_t word;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
        return word;
    }
    // 16 rows and 16 columns of A, times 8 columns of B: mma.sync.
    static __device__ __forceinline__ void multiply(float* sums, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

struct Fp16 {
    // Clamps a mean of values near the largest fp16 if its weights were rounded up.
    static __device__ __forceinline__ float finite(float x) { return fminf(fmaxf(x, -65504.0f), 65504.0f); }
    static __device__ __forceinline__ float low(uint32_t word) {
        float value;
        asm("{\n.reg .b16 half, rest;\nmov.b32 {half, rest}, %1;\ncvt.f32.f16 %0, half;\n}" : "=f"(value) : "r"(word));
        return value;
    }
    static __device__ __forceinline__ float high(uint32_t word) { return low(word >> 16); }
    static __device__ __forceinline__ uint32_t pack(float low, float high) {
        uint32_t word;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
        return word;
    }
    static __device__ __forceinline__ void multiply(float* sums, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// 2^x to 2^-22; 0 if it would be subnormal; 2^0 is 1 and 2^-infinity is 0.
__device__ __forceinline__ float power_of_2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

} // namespace hw4::gpu::half_forward
