// Hopper's asynchronous matrix products of 16-bit numbers, summed up in float32.
#pragma once

#include "src/gpu/common/wgmma.cuh"
#include "src/gpu/common/wgmma_operands.h"
#include "src/gpu/half/forward/numbers.cuh"

namespace hw4::gpu::half_forward {

// One instruction: 64 rows of A, 16 columns of them, times kColumns columns of B. begin() and add(s, a, b): both from
// shared memory, row by row, so that 16 columns are 32 bytes of each row; begin_down() and add_down(): B's sixteen rows
// as they are, with the columns along them; add(s, words, b): likewise, A from four words a thread.
template <class Number, int kColumns>
struct Product;

#define HW4_BEGUN(x) "=f"(x)
#define HW4_ADDED(x) "+f"(x)
#define HW4_MULTIPLY(columns, sums, is, adds, types, operands, turned, ...)                                            \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." types " {" HW4_NAMES_##sums                   \
                 "}, " HW4_##operands##_##sums ", p, 1, 1, " turned ";\n}\n"                                           \
                 : HW4_SUMS_##sums(is, 0)                                                                              \
                 : __VA_ARGS__)

#define HW4_PRODUCT(number, types, columns, sums)                                                                      \
    template <>                                                                                                        \
    struct Product<number, columns> {                                                                                  \
        static __device__ __forceinline__ void begin(float* s, uint64_t a, uint64_t b) {                               \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", types, SHARED, "0, 0", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void add(float* s, uint64_t a, uint64_t b) {                                 \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", types, SHARED, "0, 0", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void begin_down(float* s, uint64_t a, uint64_t b) {                          \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", types, SHARED, "0, 1", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void add_down(float* s, uint64_t a, uint64_t b) {                            \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", types, SHARED, "0, 1", "l"(a), "l"(b));                        \
        }                                                                                                              \
        static __device__ __forceinline__ void add(float* s, const uint32_t (&a)[4], uint64_t b) {                     \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", types, WORDS, "1", HW4_A_WORDS, "l"(b));                       \
        }                                                                                                              \
    }

HW4_PRODUCT(Bf16, "bf16.bf16", 64, 32);
HW4_PRODUCT(Bf16, "bf16.bf16", 128, 64);
HW4_PRODUCT(Fp16, "f16.f16", 64, 32);
HW4_PRODUCT(Fp16, "f16.f16", 128, 64);

#undef HW4_BEGUN
#undef HW4_ADDED
#undef HW4_MULTIPLY
#undef HW4_PRODUCT

} // namespace hw4::gpu::half_forward
