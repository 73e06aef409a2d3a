// Hopper's asynchronous matrix products, for any element type: where their inputs are, and when they are done. PTX that
// CUDA C++ has no functions for. Compiled for sm_90a only.
#pragma once

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/common/warp.cuh"

namespace hw4::gpu {

// A plane in shared memory, rows of kRowBytes, as the tensor cores read it. Only the lower half of a descriptor depends
// on the plane's address, so a 32-bit addition moves it. kNextColumns: the distance from one such plane to the next
// with more columns, if the product runs down the columns; along rows it is ignored.
template <int kRowBytes, uint32_t kNextColumns = 16>
struct PlaneDescriptor {
    uint32_t low;

    static __device__ __forceinline__ PlaneDescriptor at(const void* plane) {
        return {uniform(((kNextColumns >> 4) << 16) | ((address_of(plane) & 0x3ffff) >> 4))};
    }
    __device__ __forceinline__ PlaneDescriptor plus(uint32_t bytes) const { return {low + (bytes >> 4)}; }
    __device__ __forceinline__ operator uint64_t() const {
        constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
        constexpr uint64_t kEightRows = 8 * kRowBytes;
        return (kSwizzle << 62) | ((kEightRows >> 4) << 32) | low;
    }
};

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// The compiler must not move uses of sums, or the computation of words, across this.
template <class Word, int kN>
__device__ __forceinline__ void pin(Word (&words)[kN]) {
#pragma unroll
    for (int i = 0; i < kN; ++i) asm volatile("" : "+r"(words[i])::"memory");
}
template <int kN>
__device__ __forceinline__ void pin(float (&sums)[kN]) {
#pragma unroll
    for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

} // namespace hw4::gpu

// ---- The operands of wgmma as text for asm: PTX names every register. A thread's sums, an array `s`, then A as a
// descriptor or as four words, and the descriptor of B.

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
#define HW4_A_WORDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
