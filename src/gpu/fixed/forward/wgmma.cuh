// Hopper's asynchronous matrix products of bytes; PTX that CUDA C++ has no words for. Compiled for sm_90a only.
#pragma once

#include "src/gpu/common/shared_address.cuh"
#include "src/gpu/common/warp.cuh"

namespace hw4::gpu::fixed_point {

// A plane of bytes in shared memory, rows of kRowBytes, as the tensor cores read it. Only the lower half of a
// descriptor depends on where the plane is, so that moving it is an addition of 32 bits.
template <int kRowBytes>
struct PlaneDescriptor {
    uint32_t low;

    static __device__ __forceinline__ PlaneDescriptor at(const void* plane) {
        return {uniform((1u << 16) | ((address_of(plane) & 0x3ffff) >> 4))};
    }
    __device__ __forceinline__ PlaneDescriptor plus(uint32_t bytes) const { return {low + (bytes >> 4)}; }
    __device__ __forceinline__ operator uint64_t() const {
        constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
        constexpr uint64_t kEightRows = 8 * kRowBytes;
        return (kSwizzle << 62) | ((kEightRows >> 4) << 32) | low;
    }
};

constexpr uint32_t kStepBytes = 32; // of each row that one instruction multiplies

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

// One instruction: 64 rows and 32 bytes of each of A, from shared memory or from four words a thread, times kColumns
// rows of B. begin() sets the first kColumns / 2 sums of a thread, add() adds to them. In words that macros put
// together: PTX takes every register by name. The digits of words, the weights, have no sign.
template <int kColumns>
struct Product;

#define HW4_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HW4_NAMES_32 HW4_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HW4_NAMES_48 HW4_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define HW4_NAMES_64 HW4_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HW4_NAMES_96                                                                                                   \
    HW4_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, "   \
                 "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define HW4_NAMES_128                                                                                                  \
    HW4_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "      \
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define HW4_FOUR(is, i) is(s[i]), is(s[(i) + 1]), is(s[(i) + 2]), is(s[(i) + 3])
#define HW4_SUMS_16(is, i) HW4_FOUR(is, i), HW4_FOUR(is, (i) + 4), HW4_FOUR(is, (i) + 8), HW4_FOUR(is, (i) + 12)
#define HW4_SUMS_32(is, i) HW4_SUMS_16(is, i), HW4_SUMS_16(is, (i) + 16)
#define HW4_SUMS_48(is, i) HW4_SUMS_32(is, i), HW4_SUMS_16(is, (i) + 32)
#define HW4_SUMS_64(is, i) HW4_SUMS_32(is, i), HW4_SUMS_32(is, (i) + 32)
#define HW4_SUMS_96(is, i) HW4_SUMS_64(is, i), HW4_SUMS_32(is, (i) + 64)
#define HW4_SUMS_128(is, i) HW4_SUMS_64(is, i), HW4_SUMS_64(is, (i) + 64)
#define HW4_SHARED_16 "%16, %17"
#define HW4_WORDS_16 "{%16, %17, %18, %19}, %20"
#define HW4_SHARED_32 "%32, %33"
#define HW4_WORDS_32 "{%32, %33, %34, %35}, %36"
#define HW4_SHARED_48 "%48, %49"
#define HW4_WORDS_48 "{%48, %49, %50, %51}, %52"
#define HW4_SHARED_64 "%64, %65"
#define HW4_WORDS_64 "{%64, %65, %66, %67}, %68"
#define HW4_SHARED_96 "%96, %97"
#define HW4_WORDS_96 "{%96, %97, %98, %99}, %100"
#define HW4_SHARED_128 "%128, %129"
#define HW4_WORDS_128 "{%128, %129, %130, %131}, %132"
#define HW4_BEGUN(x) "=r"(x)
#define HW4_ADDED(x) "+r"(x)
#define HW4_MULTIPLY(columns, sums, is, adds, types, operands, ...)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k32.s32." types " {" HW4_NAMES_##sums                   \
                 "}, " HW4_##operands##_##sums ", p;\n}\n"                                                             \
                 : HW4_SUMS_##sums(is, 0)                                                                              \
                 : __VA_ARGS__)
#define HW4_A_WORDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

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

#undef HW4_NAMES_16
#undef HW4_NAMES_32
#undef HW4_NAMES_48
#undef HW4_NAMES_64
#undef HW4_NAMES_96
#undef HW4_NAMES_128
#undef HW4_FOUR
#undef HW4_SUMS_16
#undef HW4_SUMS_32
#undef HW4_SUMS_48
#undef HW4_SUMS_64
#undef HW4_SUMS_96
#undef HW4_SUMS_128
#undef HW4_SHARED_16
#undef HW4_WORDS_16
#undef HW4_SHARED_32
#undef HW4_WORDS_32
#undef HW4_SHARED_48
#undef HW4_WORDS_48
#undef HW4_SHARED_64
#undef HW4_WORDS_64
#undef HW4_SHARED_96
#undef HW4_SHARED_128
#undef HW4_WORDS_96
#undef HW4_WORDS_128
#undef HW4_BEGUN
#undef HW4_ADDED
#undef HW4_MULTIPLY
#undef HW4_A_WORDS
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
