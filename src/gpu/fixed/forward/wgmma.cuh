// Hopper's asynchronous matrix products of bytes.
#pragma once

#include "src/gpu/common/wgmma.cuh"

namespace hw4::gpu::fixed_point {

constexpr uint32_t kStepBytes = 32; // of each row that one instruction multiplies

// One instruction: 64 rows and 32 bytes of each of A, from shared memory or from four words a thread, times kColumns
// rows of B. begin() sets the first kColumns / 2 sums of a thread, add() adds to them. In words that macros put
// together: PTX takes every register by name. The digits of words, the weights, have no sign.
template <int kColumns>
struct Product;

#define HW4_BEGUN(x) "=r"(x)
#define HW4_ADDED(x) "+r"(x)
#define HW4_MULTIPLY(columns, sums, is, adds, types, operands, ...)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k32.s32." types " {" HW4_NAMES_##sums                   \
                 "}, " HW4_##operands##_##sums ", p;\n}\n"                                                             \
                 : HW4_SUMS_##sums(is, 0)                                                                              \
                 : __VA_ARGS__)

#define HW4_PRODUCT(columns, sums)                                                                                     \
    template <>                                                                                                        \
    struct Product<columns> {                                                                                          \
        static __device__ __forceinline__ void begin(int32_t* s, uint64_t a, uint64_t b) {                             \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", "s8.s8", SHARED, "l"(a), "l"(b));                              \
        }                                                                                                              \
        static __device__ __forceinline__ void add(int32_t* s, uint64_t a, uint64_t b) {                               \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));                              \
        }                                                                                                              \
        static __device__ __forceinline__ void begin(int32_t* s, const uint32_t (&a)[4], uint64_t b) {                 \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));                          \
        }                                                                                                              \
        static __device__ __forceinline__ void add(int32_t* s, const uint32_t (&a)[4], uint64_t b) {                   \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));                          \
        }                                                                                                              \
    }

HW4_PRODUCT(32, 16);
HW4_PRODUCT(64, 32);
HW4_PRODUCT(96, 48);
HW4_PRODUCT(128, 64);
HW4_PRODUCT(192, 96);
HW4_PRODUCT(256, 128);

#undef HW4_BEGUN
#undef HW4_ADDED
#undef HW4_MULTIPLY
#undef HW4_PRODUCT

// Products of three digits by level: sums [L2 | L1 | L0] of kWidth columns each. B's planes follow one another, low,
// middle and high, so one instruction multiplies a plane of A by all of B's that count with it; that is fewer and
// longer instructions than one for each pair of planes, and the longer they are, the less they and other warps'
// arithmetic hold each other up. high() begins the sums where kFirst; middle() and low() add. A is descriptor or words.
template <int kWidth>
struct LevelProducts {
    using Sums = int32_t[3 * kWidth / 2];

    template <bool kFirst, class A>
    static __device__ __forceinline__ void high(Sums& s, const A& a, uint64_t b) {
        if constexpr (kFirst)
            Product<3 * kWidth>::begin(s, a, b);
        else
            Product<3 * kWidth>::add(s, a, b);
    }
    template <class A>
    static __device__ __forceinline__ void middle(Sums& s, const A& a, uint64_t b) {
        Product<2 * kWidth>::add(s, a, b);
    }
    template <class A>
    static __device__ __forceinline__ void low(Sums& s, const A& a, uint64_t b) {
        Product<kWidth>::add(s, a, b);
    }
};

} // namespace hw4::gpu::fixed_point
