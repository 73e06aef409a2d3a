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

// What this thread wrote to shared memory becomes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void publish_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Of the 128 threads of group `group`.
__device__ __forceinline__ void sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

} // namespace hw4::gpu
