// Hopper's asynchronous matrix products of bytes, and the barriers and copies that feed them; PTX that CUDA C++ has no
// words for. Compiled for sm_90a only.
#pragma once

#include <cstdint>

#include "layout.h"

namespace hw4::gpu::fixed_point {

// ---- Shared-memory barriers and copies

using SharedAddress = uint32_t; // in bytes

__device__ __forceinline__ SharedAddress shared_address(const void* pointer) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void init_barrier(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// The barrier's phase ends when `bytes` have been copied.
__device__ __forceinline__ void expect_bytes(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void wait_for_phase(uint64_t* barrier, int parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void copy_bytes(void* to, const void* from, int bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// What this thread wrote to shared memory becomes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void publish_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Of the 128 threads of group `group`.
__device__ __forceinline__ void sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

__device__ __forceinline__ void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// ---- Matrix products

// A value that is the same in all lanes, in a register that all lanes share: the compiler cannot always tell, and would
// move every operand's address there one by one.
__device__ __forceinline__ uint32_t uniform(uint32_t x) { return __reduce_or_sync(~0u, x); }

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

template <>
struct LevelProducts<32> {
    template <bool kFirst>
    static __device__ __forceinline__ void high(int32_t (&s)[48], uint64_t a, uint64_t b) {
        if constexpr (kFirst)
            asm volatile(
                "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
                "%48, %49, p;\n}\n"
                : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]), "=r"(s[6]), "=r"(s[7]),
                  "=r"(s[8]), "=r"(s[9]), "=r"(s[10]), "=r"(s[11]), "=r"(s[12]), "=r"(s[13]), "=r"(s[14]), "=r"(s[15]),
                  "=r"(s[16]), "=r"(s[17]), "=r"(s[18]), "=r"(s[19]), "=r"(s[20]), "=r"(s[21]), "=r"(s[22]),
                  "=r"(s[23]), "=r"(s[24]), "=r"(s[25]), "=r"(s[26]), "=r"(s[27]), "=r"(s[28]), "=r"(s[29]),
                  "=r"(s[30]), "=r"(s[31]), "=r"(s[32]), "=r"(s[33]), "=r"(s[34]), "=r"(s[35]), "=r"(s[36]),
                  "=r"(s[37]), "=r"(s[38]), "=r"(s[39]), "=r"(s[40]), "=r"(s[41]), "=r"(s[42]), "=r"(s[43]),
                  "=r"(s[44]), "=r"(s[45]), "=r"(s[46]), "=r"(s[47])
                : "l"(a), "l"(b));
        else
            asm volatile(
                "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
                "%48, %49, p;\n}\n"
                : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
                  "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15]),
                  "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]), "+r"(s[22]),
                  "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]), "+r"(s[29]),
                  "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]), "+r"(s[35]), "+r"(s[36]),
                  "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]), "+r"(s[42]), "+r"(s[43]),
                  "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47])
                : "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void middle(int32_t (&s)[48], uint64_t a, uint64_t b) {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
            "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
            "%32, %33, p;\n}\n"
            : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
              "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15]),
              "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]), "+r"(s[22]), "+r"(s[23]),
              "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31])
            : "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void low(int32_t (&s)[48], uint64_t a, uint64_t b) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
                     "%11, %12, %13, %14, %15}, "
                     "%16, %17, p;\n}\n"
                     : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
                       "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]),
                       "+r"(s[15])
                     : "l"(a), "l"(b));
    }

    // Weights: their high digits have no sign.
    template <bool kFirst>
    static __device__ __forceinline__ void high(int32_t (&s)[48], const uint32_t (&a)[4], uint64_t b) {
        if constexpr (kFirst)
            asm volatile(
                "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                "wgmma.mma_async.sync.aligned.m64n96k32.s32.u8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
                "{%48, %49, %50, %51}, %52, p;\n}\n"
                : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]), "=r"(s[6]), "=r"(s[7]),
                  "=r"(s[8]), "=r"(s[9]), "=r"(s[10]), "=r"(s[11]), "=r"(s[12]), "=r"(s[13]), "=r"(s[14]), "=r"(s[15]),
                  "=r"(s[16]), "=r"(s[17]), "=r"(s[18]), "=r"(s[19]), "=r"(s[20]), "=r"(s[21]), "=r"(s[22]),
                  "=r"(s[23]), "=r"(s[24]), "=r"(s[25]), "=r"(s[26]), "=r"(s[27]), "=r"(s[28]), "=r"(s[29]),
                  "=r"(s[30]), "=r"(s[31]), "=r"(s[32]), "=r"(s[33]), "=r"(s[34]), "=r"(s[35]), "=r"(s[36]),
                  "=r"(s[37]), "=r"(s[38]), "=r"(s[39]), "=r"(s[40]), "=r"(s[41]), "=r"(s[42]), "=r"(s[43]),
                  "=r"(s[44]), "=r"(s[45]), "=r"(s[46]), "=r"(s[47])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
        else
            asm volatile(
                "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                "wgmma.mma_async.sync.aligned.m64n96k32.s32.u8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
                "{%48, %49, %50, %51}, %52, p;\n}\n"
                : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
                  "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15]),
                  "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]), "+r"(s[22]),
                  "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]), "+r"(s[29]),
                  "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]), "+r"(s[35]), "+r"(s[36]),
                  "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]), "+r"(s[42]), "+r"(s[43]),
                  "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
    static __device__ __forceinline__ void middle(int32_t (&s)[48], const uint32_t (&a)[4], uint64_t b) {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
            "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
            "{%32, %33, %34, %35}, %36, p;\n}\n"
            : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
              "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15]),
              "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]), "+r"(s[22]), "+r"(s[23]),
              "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
    static __device__ __forceinline__ void low(int32_t (&s)[48], const uint32_t (&a)[4], uint64_t b) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
                     "%11, %12, %13, %14, %15}, "
                     "{%16, %17, %18, %19}, %20, p;\n}\n"
                     : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
                       "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]),
                       "+r"(s[15])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
};

template <>
struct LevelProducts<64> {
    template <bool kFirst>
    static __device__ __forceinline__ void high(int32_t (&s)[96], uint64_t a, uint64_t b) {
        if constexpr (kFirst)
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                         "wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
                         "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                         "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                         "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                         "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
                         "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
                         "%96, %97, p;\n}\n"
                         : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]), "=r"(s[6]),
                           "=r"(s[7]), "=r"(s[8]), "=r"(s[9]), "=r"(s[10]), "=r"(s[11]), "=r"(s[12]), "=r"(s[13]),
                           "=r"(s[14]), "=r"(s[15]), "=r"(s[16]), "=r"(s[17]), "=r"(s[18]), "=r"(s[19]), "=r"(s[20]),
                           "=r"(s[21]), "=r"(s[22]), "=r"(s[23]), "=r"(s[24]), "=r"(s[25]), "=r"(s[26]), "=r"(s[27]),
                           "=r"(s[28]), "=r"(s[29]), "=r"(s[30]), "=r"(s[31]), "=r"(s[32]), "=r"(s[33]), "=r"(s[34]),
                           "=r"(s[35]), "=r"(s[36]), "=r"(s[37]), "=r"(s[38]), "=r"(s[39]), "=r"(s[40]), "=r"(s[41]),
                           "=r"(s[42]), "=r"(s[43]), "=r"(s[44]), "=r"(s[45]), "=r"(s[46]), "=r"(s[47]), "=r"(s[48]),
                           "=r"(s[49]), "=r"(s[50]), "=r"(s[51]), "=r"(s[52]), "=r"(s[53]), "=r"(s[54]), "=r"(s[55]),
                           "=r"(s[56]), "=r"(s[57]), "=r"(s[58]), "=r"(s[59]), "=r"(s[60]), "=r"(s[61]), "=r"(s[62]),
                           "=r"(s[63]), "=r"(s[64]), "=r"(s[65]), "=r"(s[66]), "=r"(s[67]), "=r"(s[68]), "=r"(s[69]),
                           "=r"(s[70]), "=r"(s[71]), "=r"(s[72]), "=r"(s[73]), "=r"(s[74]), "=r"(s[75]), "=r"(s[76]),
                           "=r"(s[77]), "=r"(s[78]), "=r"(s[79]), "=r"(s[80]), "=r"(s[81]), "=r"(s[82]), "=r"(s[83]),
                           "=r"(s[84]), "=r"(s[85]), "=r"(s[86]), "=r"(s[87]), "=r"(s[88]), "=r"(s[89]), "=r"(s[90]),
                           "=r"(s[91]), "=r"(s[92]), "=r"(s[93]), "=r"(s[94]), "=r"(s[95])
                         : "l"(a), "l"(b));
        else
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                         "wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
                         "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                         "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                         "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                         "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
                         "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
                         "%96, %97, p;\n}\n"
                         : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]),
                           "+r"(s[7]), "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]),
                           "+r"(s[14]), "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]),
                           "+r"(s[21]), "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]),
                           "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]),
                           "+r"(s[35]), "+r"(s[36]), "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]),
                           "+r"(s[42]), "+r"(s[43]), "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47]), "+r"(s[48]),
                           "+r"(s[49]), "+r"(s[50]), "+r"(s[51]), "+r"(s[52]), "+r"(s[53]), "+r"(s[54]), "+r"(s[55]),
                           "+r"(s[56]), "+r"(s[57]), "+r"(s[58]), "+r"(s[59]), "+r"(s[60]), "+r"(s[61]), "+r"(s[62]),
                           "+r"(s[63]), "+r"(s[64]), "+r"(s[65]), "+r"(s[66]), "+r"(s[67]), "+r"(s[68]), "+r"(s[69]),
                           "+r"(s[70]), "+r"(s[71]), "+r"(s[72]), "+r"(s[73]), "+r"(s[74]), "+r"(s[75]), "+r"(s[76]),
                           "+r"(s[77]), "+r"(s[78]), "+r"(s[79]), "+r"(s[80]), "+r"(s[81]), "+r"(s[82]), "+r"(s[83]),
                           "+r"(s[84]), "+r"(s[85]), "+r"(s[86]), "+r"(s[87]), "+r"(s[88]), "+r"(s[89]), "+r"(s[90]),
                           "+r"(s[91]), "+r"(s[92]), "+r"(s[93]), "+r"(s[94]), "+r"(s[95])
                         : "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void middle(int32_t (&s)[96], uint64_t a, uint64_t b) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
                     "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                     "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, "
                     "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                     "%64, %65, p;\n}\n"
                     : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
                       "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]),
                       "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]),
                       "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]),
                       "+r"(s[29]), "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]), "+r"(s[35]),
                       "+r"(s[36]), "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]), "+r"(s[42]),
                       "+r"(s[43]), "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47]), "+r"(s[48]), "+r"(s[49]),
                       "+r"(s[50]), "+r"(s[51]), "+r"(s[52]), "+r"(s[53]), "+r"(s[54]), "+r"(s[55]), "+r"(s[56]),
                       "+r"(s[57]), "+r"(s[58]), "+r"(s[59]), "+r"(s[60]), "+r"(s[61]), "+r"(s[62]), "+r"(s[63])
                     : "l"(a), "l"(b));
    }
    static __device__ __forceinline__ void low(int32_t (&s)[96], uint64_t a, uint64_t b) {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
            "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
            "%32, %33, p;\n}\n"
            : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
              "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15]),
              "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]), "+r"(s[22]), "+r"(s[23]),
              "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31])
            : "l"(a), "l"(b));
    }

    // Weights: their high digits have no sign.
    template <bool kFirst>
    static __device__ __forceinline__ void high(int32_t (&s)[96], const uint32_t (&a)[4], uint64_t b) {
        if constexpr (kFirst)
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                         "wgmma.mma_async.sync.aligned.m64n192k32.s32.u8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
                         "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                         "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                         "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                         "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
                         "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
                         "{%96, %97, %98, %99}, %100, p;\n}\n"
                         : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]), "=r"(s[6]),
                           "=r"(s[7]), "=r"(s[8]), "=r"(s[9]), "=r"(s[10]), "=r"(s[11]), "=r"(s[12]), "=r"(s[13]),
                           "=r"(s[14]), "=r"(s[15]), "=r"(s[16]), "=r"(s[17]), "=r"(s[18]), "=r"(s[19]), "=r"(s[20]),
                           "=r"(s[21]), "=r"(s[22]), "=r"(s[23]), "=r"(s[24]), "=r"(s[25]), "=r"(s[26]), "=r"(s[27]),
                           "=r"(s[28]), "=r"(s[29]), "=r"(s[30]), "=r"(s[31]), "=r"(s[32]), "=r"(s[33]), "=r"(s[34]),
                           "=r"(s[35]), "=r"(s[36]), "=r"(s[37]), "=r"(s[38]), "=r"(s[39]), "=r"(s[40]), "=r"(s[41]),
                           "=r"(s[42]), "=r"(s[43]), "=r"(s[44]), "=r"(s[45]), "=r"(s[46]), "=r"(s[47]), "=r"(s[48]),
                           "=r"(s[49]), "=r"(s[50]), "=r"(s[51]), "=r"(s[52]), "=r"(s[53]), "=r"(s[54]), "=r"(s[55]),
                           "=r"(s[56]), "=r"(s[57]), "=r"(s[58]), "=r"(s[59]), "=r"(s[60]), "=r"(s[61]), "=r"(s[62]),
                           "=r"(s[63]), "=r"(s[64]), "=r"(s[65]), "=r"(s[66]), "=r"(s[67]), "=r"(s[68]), "=r"(s[69]),
                           "=r"(s[70]), "=r"(s[71]), "=r"(s[72]), "=r"(s[73]), "=r"(s[74]), "=r"(s[75]), "=r"(s[76]),
                           "=r"(s[77]), "=r"(s[78]), "=r"(s[79]), "=r"(s[80]), "=r"(s[81]), "=r"(s[82]), "=r"(s[83]),
                           "=r"(s[84]), "=r"(s[85]), "=r"(s[86]), "=r"(s[87]), "=r"(s[88]), "=r"(s[89]), "=r"(s[90]),
                           "=r"(s[91]), "=r"(s[92]), "=r"(s[93]), "=r"(s[94]), "=r"(s[95])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
        else
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                         "wgmma.mma_async.sync.aligned.m64n192k32.s32.u8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
                         "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
                         "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
                         "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                         "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
                         "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
                         "{%96, %97, %98, %99}, %100, p;\n}\n"
                         : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]),
                           "+r"(s[7]), "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]),
                           "+r"(s[14]), "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]),
                           "+r"(s[21]), "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]),
                           "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]),
                           "+r"(s[35]), "+r"(s[36]), "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]),
                           "+r"(s[42]), "+r"(s[43]), "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47]), "+r"(s[48]),
                           "+r"(s[49]), "+r"(s[50]), "+r"(s[51]), "+r"(s[52]), "+r"(s[53]), "+r"(s[54]), "+r"(s[55]),
                           "+r"(s[56]), "+r"(s[57]), "+r"(s[58]), "+r"(s[59]), "+r"(s[60]), "+r"(s[61]), "+r"(s[62]),
                           "+r"(s[63]), "+r"(s[64]), "+r"(s[65]), "+r"(s[66]), "+r"(s[67]), "+r"(s[68]), "+r"(s[69]),
                           "+r"(s[70]), "+r"(s[71]), "+r"(s[72]), "+r"(s[73]), "+r"(s[74]), "+r"(s[75]), "+r"(s[76]),
                           "+r"(s[77]), "+r"(s[78]), "+r"(s[79]), "+r"(s[80]), "+r"(s[81]), "+r"(s[82]), "+r"(s[83]),
                           "+r"(s[84]), "+r"(s[85]), "+r"(s[86]), "+r"(s[87]), "+r"(s[88]), "+r"(s[89]), "+r"(s[90]),
                           "+r"(s[91]), "+r"(s[92]), "+r"(s[93]), "+r"(s[94]), "+r"(s[95])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
    static __device__ __forceinline__ void middle(int32_t (&s)[96], const uint32_t (&a)[4], uint64_t b) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
                     "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                     "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, "
                     "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                     "{%64, %65, %66, %67}, %68, p;\n}\n"
                     : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
                       "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]),
                       "+r"(s[15]), "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]),
                       "+r"(s[22]), "+r"(s[23]), "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]),
                       "+r"(s[29]), "+r"(s[30]), "+r"(s[31]), "+r"(s[32]), "+r"(s[33]), "+r"(s[34]), "+r"(s[35]),
                       "+r"(s[36]), "+r"(s[37]), "+r"(s[38]), "+r"(s[39]), "+r"(s[40]), "+r"(s[41]), "+r"(s[42]),
                       "+r"(s[43]), "+r"(s[44]), "+r"(s[45]), "+r"(s[46]), "+r"(s[47]), "+r"(s[48]), "+r"(s[49]),
                       "+r"(s[50]), "+r"(s[51]), "+r"(s[52]), "+r"(s[53]), "+r"(s[54]), "+r"(s[55]), "+r"(s[56]),
                       "+r"(s[57]), "+r"(s[58]), "+r"(s[59]), "+r"(s[60]), "+r"(s[61]), "+r"(s[62]), "+r"(s[63])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
    static __device__ __forceinline__ void low(int32_t (&s)[96], const uint32_t (&a)[4], uint64_t b) {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
            "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
            "{%32, %33, %34, %35}, %36, p;\n}\n"
            : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]), "+r"(s[4]), "+r"(s[5]), "+r"(s[6]), "+r"(s[7]),
              "+r"(s[8]), "+r"(s[9]), "+r"(s[10]), "+r"(s[11]), "+r"(s[12]), "+r"(s[13]), "+r"(s[14]), "+r"(s[15]),
              "+r"(s[16]), "+r"(s[17]), "+r"(s[18]), "+r"(s[19]), "+r"(s[20]), "+r"(s[21]), "+r"(s[22]), "+r"(s[23]),
              "+r"(s[24]), "+r"(s[25]), "+r"(s[26]), "+r"(s[27]), "+r"(s[28]), "+r"(s[29]), "+r"(s[30]), "+r"(s[31])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
};

} // namespace hw4::gpu::fixed_point
