// Barriers in shared memory that count arrivals and copied bytes (mbarrier), the copies that arrive there, and barriers
// of some of a block's threads. For Hopper.
#pragma once

#include "src/gpu/common/shared_address.cuh"

namespace hw4::gpu {

__device__ __forceinline__ void init_barrier(SharedAddress barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(SharedAddress barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
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

// From global to shared memory, by the copy engine.
__device__ __forceinline__ void copy_bytes(SharedAddress to, const void* from, int bytes, SharedAddress barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// The same of a box of a tensor of four dimensions, laid out as its map says; what is outside of the tensor are zeros,
// and counts as copied. `x` is the innermost coordinate.
__device__ __forceinline__ void copy_box(SharedAddress to, const void* map, int x, int row, int head, int batch,
                                         SharedAddress barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                 "l"(map), "r"(x), "r"(row), "r"(head), "r"(batch), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void prefetch_map(const void* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Barriers that this thread began become visible to the copy engine.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// What this thread wrote to shared memory becomes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void publish_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// What this thread knows to be written to global memory becomes visible to the copies that it starts.
__device__ __forceinline__ void publish_global_to_async() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Of the 128 threads of group `group`.
__device__ __forceinline__ void sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// Two groups of 128 threads: one waits at the barrier until the other has passed it.
__device__ __forceinline__ void wait_for_other_group(int barrier) {
    asm volatile("bar.sync %0, 256;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void pass_for_other_group(int barrier) {
    asm volatile("bar.arrive %0, 256;" ::"r"(barrier) : "memory");
}

// How many registers each thread of a group of 128 has from here on. Fewer, before others can have more.
template <int kRegisters>
__device__ __forceinline__ void give_registers_back() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

} // namespace hw4::gpu
