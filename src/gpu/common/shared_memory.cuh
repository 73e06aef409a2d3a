// Shared memory: 32-bit addresses, asynchronous copies, barriers that wait for them, rings of stages.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

namespace hw4::gpu {

// ---- Shared memory by 32-bit address: one register for the address, constant offsets in the instructions

using SharedAddress = uint32_t; // in bytes

__device__ __forceinline__ SharedAddress address_of(const void* shared) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ float* pointer_to(SharedAddress at) {
    return static_cast<float*>(__cvta_shared_to_generic(at));
}

// Stores 1 to shared memory if `so`, without a branch. Several threads may do so at once.
__device__ __forceinline__ void set_if(unsigned* flag, bool so) {
    asm volatile("{\n.reg .pred so;\nsetp.ne.u32 so, %1, 0;\n@so st.shared.u32 [%0], 1;\n}\n" ::"r"(address_of(flag)),
                 "r"(static_cast<unsigned>(so))
                 : "memory");
}

// kN floats as float4, `step` bytes apart.
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

// ---- Asynchronous copies from global to shared memory that bypass the registers (cp.async, from compute capability
// 8.0 on). A thread commits the copies it has started as a group, and waits for groups in order.

// Copies kBytes, 4, 8 or 16, aligned to kBytes. If not `there`: writes zeros and reads nothing.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool there = true) {
    __pipeline_memcpy_async(to, from, kBytes, there ? 0 : kBytes);
}

// How the L2 cache treats data: evicts it before other data, as usual, or after other data.
enum class Evict { first, usual, last };
__device__ __forceinline__ uint64_t cache_policy(Evict when) {
    uint64_t policy = 0;
    if (when == Evict::first)
        asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    else if (when == Evict::last)
        asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
    else
        asm("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(policy));
    return policy;
}

// Copies 16 bytes with such a policy; if not `there`, writes zeros and reads nothing.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool there, uint64_t policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(address_of(to)), "l"(from),
                 "r"(there ? 16 : 0), "l"(policy)
                 : "memory");
}

// Commits the copies started since the last group, even if there are none.
__device__ __forceinline__ void end_group_of_copies() { __pipeline_commit(); }

// Waits until at most the latest kLeft groups are in flight.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
    __pipeline_wait_prior(kLeft);
}

// Waits for all copies that this thread started.
__device__ __forceinline__ void finish_copies() {
    end_group_of_copies();
    wait_for_copies<0>();
}

// ---- Barriers in shared memory that count arrivals and copied bytes (mbarrier), copies that arrive at them, and
// barriers for some of a block's threads. For Hopper.

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

// Copies from global to shared memory by the copy engine.
__device__ __forceinline__ void copy_bytes(SharedAddress to, const void* from, int bytes, SharedAddress barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// The same for a box of a tensor of four dimensions, with the layout of its tensor map; elements outside the tensor are
// zeros and count as copied. `x` is the innermost coordinate.
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

// Makes barriers that this thread initialised visible to the copy engine.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Makes this thread's writes to shared memory visible to the tensor cores and the copy engine.
__device__ __forceinline__ void publish_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Makes writes to global memory that this thread can see visible to the copies that it starts.
__device__ __forceinline__ void publish_global_to_async() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// A barrier of the 128 threads of group `group`.
__device__ __forceinline__ void sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// Two groups of 128 threads: one waits at the barrier until the other has arrived.
__device__ __forceinline__ void wait_for_other_group(int barrier) {
    asm volatile("bar.sync %0, 256;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void pass_for_other_group(int barrier) {
    asm volatile("bar.arrive %0, 256;" ::"r"(barrier) : "memory");
}

// Sets the number of registers per thread of a group of 128. Lower it in one group before raising it in another.
template <int kRegisters>
__device__ __forceinline__ void give_registers_back() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- A position in a ring of stages in shared memory

// A stage of the ring, and the parity of the pass over the ring.
struct RingPosition {
    unsigned stage = 0;
    unsigned phase = 0;

    template <int kStages>
    __device__ __forceinline__ RingPosition plus(unsigned tiles) const {
        const bool again = stage + tiles >= kStages;
        return {stage + tiles - (again ? kStages : 0), phase ^ (again ? 1 : 0)};
    }
};

} // namespace hw4::gpu
