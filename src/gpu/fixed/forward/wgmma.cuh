// Hopper's asynchronous matrix products of bytes, and the barriers and copies that feed them; PTX that CUDA C++ has no
// words for. Compiled for sm_90a only.
#pragma once

#include <cstdint>

#include "src/gpu/fixed/forward/layout.h"
#include "src/gpu/fixed/forward/uniform.cuh"

namespace hw4::gpu::fixed_point {

// ---- Shared-memory barriers and copies

using SharedAddress = uint32_t; // in bytes

__device__ __forceinline__ SharedAddress shared_address(const void* pointer) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void init_barrier(SharedAddress barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// The barrier's phase ends when `bytes` have been copied.
__device__ __forceinline__ void expect_bytes(SharedAddress barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_for_phase(SharedAddress barrier, int parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void copy_bytes(SharedAddress to, const void* from, int bytes, SharedAddress barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// What this thread wrote to shared memory becomes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void publish_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Of the 128 threads of group `group`.
__device__ __forceinline__ void sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

__device__ __forceinline__ void arrive(SharedAddress barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// ---- Matrix products

// A plane of bytes in shared memory, rows of kRowBytes, as the tensor cores read it. Only the lower half of a
// descriptor depends on where the plane is, so that moving it is an addition of 32 bits.
template <int kRowBytes>
struct PlaneDescriptor {
    uint32_t low;

    static __device__ __forceinline__ PlaneDescriptor at(const void* plane) {
        return {uniform((1u << 16) | ((shared_address(plane) & 0x3ffff) >> 4))};
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

// The compiler may not move uses of the sums across this.
template <int kN>
__device__ __forceinline__ void pin(int32_t (&sums)[kN]) {
#pragma unroll
    for (int i = 0; i < kN; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

// Products of digits by level: sums [L2 | L1 | L0] of kWidth columns each. B's planes follow one another, low, middle
// and high, so one instruction multiplies a plane of A by all of B's that count with it; that is fewer and longer
// instructions than one for each pair of planes, and the longer they are, the less they and other warps' arithmetic
// hold each other up. high() begins the sums where kFirst; middle() and low() add. A comes from shared memory or from
// four words a thread: 64 rows, 32 bytes of each.
template <int kWidth>
struct LevelProducts;

// An instruction of so many columns and sums a thread, in words that macros put together: PTX takes every register by
// name.
#define HW4_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HW4_NAMES_32 HW4_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HW4_NAMES_48 HW4_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define HW4_NAMES_64 HW4_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HW4_NAMES_96                                                                                                   \
    HW4_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, "   \
                 "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define HW4_FOUR(is, i) is(s[i]), is(s[(i) + 1]), is(s[(i) + 2]), is(s[(i) + 3])
#define HW4_SUMS_16(is, i) HW4_FOUR(is, i), HW4_FOUR(is, (i) + 4), HW4_FOUR(is, (i) + 8), HW4_FOUR(is, (i) + 12)
#define HW4_SUMS_32(is, i) HW4_SUMS_16(is, i), HW4_SUMS_16(is, (i) + 16)
#define HW4_SUMS_48(is, i) HW4_SUMS_32(is, i), HW4_SUMS_16(is, (i) + 32)
#define HW4_SUMS_64(is, i) HW4_SUMS_32(is, i), HW4_SUMS_32(is, (i) + 32)
#define HW4_SUMS_96(is, i) HW4_SUMS_64(is, i), HW4_SUMS_32(is, (i) + 64)
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
#define HW4_BEGUN(x) "=r"(x)
#define HW4_ADDED(x) "+r"(x)
#define HW4_PRODUCTS(columns, sums, is, adds, types, operands, ...)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" columns "k32.s32." types " {" HW4_NAMES_##sums                    \
                 "}, " HW4_##operands##_##sums ", p;\n}\n"                                                             \
                 : HW4_SUMS_##sums(is, 0)                                                                              \
                 : __VA_ARGS__)
#define HW4_A_WORDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

template <>
struct LevelProducts<32> {
    using Sums = int32_t[48];
    template <bool kFirst>
    static __device__ __forceinline__ void high(Sums& s, uint64_t a, uint64_t b) {
        if constexpr (kFirst)
            HW4_PRODUCTS("96", 48, HW4_BEGUN, "0", "s8.s8", SHARED, "l"(a), "l"(b));
        else
            HW4_PRODUCTS("96", 48, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void middle(Sums& s, uint64_t a, uint64_t b) {
        HW4_PRODUCTS("64", 32, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void low(Sums& s, uint64_t a, uint64_t b) {
        HW4_PRODUCTS("32", 16, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));
    }

    // Weights: their digits have no sign.
    template <bool kFirst>
    static __device__ __forceinline__ void high(Sums& s, const uint32_t (&a)[4], uint64_t b) {
        if constexpr (kFirst)
            HW4_PRODUCTS("96", 48, HW4_BEGUN, "0", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
        else
            HW4_PRODUCTS("96", 48, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
    }
    static __device__ __forceinline__ void middle(Sums& s, const uint32_t (&a)[4], uint64_t b) {
        HW4_PRODUCTS("64", 32, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
    }
    static __device__ __forceinline__ void low(Sums& s, const uint32_t (&a)[4], uint64_t b) {
        HW4_PRODUCTS("32", 16, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
    }
};

template <>
struct LevelProducts<64> {
    using Sums = int32_t[96];
    template <bool kFirst>
    static __device__ __forceinline__ void high(Sums& s, uint64_t a, uint64_t b) {
        if constexpr (kFirst)
            HW4_PRODUCTS("192", 96, HW4_BEGUN, "0", "s8.s8", SHARED, "l"(a), "l"(b));
        else
            HW4_PRODUCTS("192", 96, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void middle(Sums& s, uint64_t a, uint64_t b) {
        HW4_PRODUCTS("128", 64, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void low(Sums& s, uint64_t a, uint64_t b) {
        HW4_PRODUCTS("64", 32, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));
    }

    // Weights: their digits have no sign.
    template <bool kFirst>
    static __device__ __forceinline__ void high(Sums& s, const uint32_t (&a)[4], uint64_t b) {
        if constexpr (kFirst)
            HW4_PRODUCTS("192", 96, HW4_BEGUN, "0", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
        else
            HW4_PRODUCTS("192", 96, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
    }
    static __device__ __forceinline__ void middle(Sums& s, const uint32_t (&a)[4], uint64_t b) {
        HW4_PRODUCTS("128", 64, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
    }
    static __device__ __forceinline__ void low(Sums& s, const uint32_t (&a)[4], uint64_t b) {
        HW4_PRODUCTS("64", 32, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));
    }
};

#undef HW4_NAMES_16
#undef HW4_NAMES_32
#undef HW4_NAMES_48
#undef HW4_NAMES_64
#undef HW4_NAMES_96
#undef HW4_FOUR
#undef HW4_SUMS_16
#undef HW4_SUMS_32
#undef HW4_SUMS_48
#undef HW4_SUMS_64
#undef HW4_SUMS_96
#undef HW4_SHARED_16
#undef HW4_WORDS_16
#undef HW4_SHARED_32
#undef HW4_WORDS_32
#undef HW4_SHARED_48
#undef HW4_WORDS_48
#undef HW4_SHARED_64
#undef HW4_WORDS_64
#undef HW4_SHARED_96
#undef HW4_WORDS_96
#undef HW4_BEGUN
#undef HW4_ADDED
#undef HW4_PRODUCTS
#undef HW4_A_WORDS

} // namespace hw4::gpu::fixed_point
