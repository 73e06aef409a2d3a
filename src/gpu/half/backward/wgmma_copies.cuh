// The threads of wgmma's backward kernel that do not multiply: one has tiles copied, one for each group has dQ added to
// its sums in global memory.
#pragma once

#include "src/gpu/common/handing_on.cuh"
#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/half/backward/wgmma_memory.cuh"

namespace hw4::gpu::half_backward {

// What one thread does: it has everything copied, in the order in which it is waited for.
template <class T>
class Copier {
public:
    __device__ Copier(BlockMemory<T>& memory, const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v,
                      const CUtensorMap& dout, const KernelArgs& args)
        : memory_(memory), at_{address_of(&memory)}, q_(q), k_(k), v_(v), dout_(dout), args_(args) {}

    __device__ void run() {
        unsigned phase = 1;
        for (;; phase ^= 1) {
            const uint32_t number = atomicAdd(args_.counters + kKeyJobs, 1u);
            wait_for_phase(at_.keys_released(), static_cast<int>(phase));
            memory_.job = number;
            if (number >= args_.work.jobs) {
                arrive(at_.keys_filled());
                return;
            }
            copy_job(Walk<T>(args_, number));
        }
    }

private:
    BlockMemory<T>& memory_;
    Addresses<T> at_;
    const CUtensorMap& q_;
    const CUtensorMap& k_;
    const CUtensorMap& v_;
    const CUtensorMap& dout_;
    const KernelArgs& args_;
    RingPosition turn_;

    __device__ __forceinline__ void copy_job(Walk<T> walk) {
        const int batch = static_cast<int>(walk.job.batch);
        const SharedAddress filled = at_.keys_filled();
        expect_bytes(filled, 2 * T::kKeyBytes);
        for (int panel = 0; panel < T::kPanels; ++panel) {
            copy_box(at_.keys() + panel * T::kKeyPanel, &k_, panel * kBoxColumns, walk.job.block * T::kKeys,
                     static_cast<int>(walk.job.kv_head), batch, filled);
            copy_box(at_.values() + panel * T::kKeyPanel, &v_, panel * kBoxColumns, walk.job.block * T::kKeys,
                     static_cast<int>(walk.job.kv_head), batch, filled);
        }
#pragma unroll 1
        for (int left = walk.count(); left > 0; --left) {
            const int64_t row = int64_t{walk.unit(args_)} * args_.padded + walk.tile * T::kQueries;
            const SharedAddress queries = at_.queries_filled(turn_.stage);
            copy_tile(q_, at_.queries(turn_.stage), queries, at_.queries_released(turn_.stage),
                      T::kQueryBytes + 2 * T::kFactBytes, walk);
            copy_bytes(at_.levels(turn_.stage), args_.levels + row, T::kFactBytes, queries);
            copy_bytes(at_.origins(turn_.stage), args_.origins + row, T::kFactBytes, queries);
            const SharedAddress douts = at_.douts_filled(turn_.stage);
            copy_tile(dout_, at_.douts(turn_.stage), douts, at_.douts_released(turn_.stage),
                      T::kQueryBytes + T::kFactBytes, walk);
            copy_bytes(at_.products(turn_.stage), args_.products + row, T::kFactBytes, douts);
            turn_ = turn_.plus<T::kStages>(1);
            walk.next();
        }
    }

    // The first of `bytes` that arrive there. A barrier that was not used yet passes for one that has just ended its
    // round.
    __device__ __forceinline__ void copy_tile(const CUtensorMap& map, SharedAddress to, SharedAddress filled,
                                              SharedAddress released, int bytes, const Walk<T>& walk) {
        wait_for_phase(released, static_cast<int>(turn_.phase ^ 1));
        expect_bytes(filled, bytes);
        copy_panels<T::kPanels, T::kQueryPanel>(to, map, walk.tile * T::kQueries, static_cast<int>(walk.head),
                                                static_cast<int>(walk.job.batch), filled);
    }
};

// From shared to global memory by the copy engine; a thread waits for what it began.
__device__ __forceinline__ void store_bytes(float* to, SharedAddress from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void add_floats(float* to, SharedAddress from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void finish_stores() {
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}
// What the copy engine did and what threads do are in order, whichever memory.
__device__ __forceinline__ void join_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// What one thread does for each group: its dQ is added to the sums in global memory.
template <class T>
class Adder {
public:
    __device__ Adder(BlockMemory<T>& memory, const KernelArgs& args, unsigned group)
        : memory_(memory), at_{address_of(&memory)}, args_(args), group_(group) {}

    __device__ void run() {
        for (unsigned phase = 0;; phase ^= 1) {
            wait_for_phase(at_.keys_filled(), static_cast<int>(phase));
            const uint32_t number = *const_cast<volatile uint32_t*>(&memory_.job);
            if (number >= args_.work.jobs) return;
            arrive(at_.keys_released());
            add_job(Walk<T>(args_, number));
        }
    }

private:
    BlockMemory<T>& memory_;
    Addresses<T> at_;
    const KernelArgs& args_;
    const unsigned group_;
    RingPosition turn_;

    __device__ __forceinline__ void add_job(Walk<T> walk) {
#pragma unroll 1
        for (int left = walk.count(); left > 0; --left) {
            const uint32_t tiles = static_cast<uint32_t>(args_.padded / T::kQueries);
            const uint32_t chunk = (walk.unit(args_) * tiles + static_cast<uint32_t>(walk.tile)) * T::kGroups + group_;
            float* const sums = args_.sums + int64_t{chunk} * T::kChunk;
            const unsigned which = turn_.stage * T::kGroups + group_;
            const auto place =
                static_cast<unsigned>(place_in_tile<T::kQueries, T::kKeys>(args_.view, walk.tile, walk.job.block));
            if (place > 0) {
                while (load_acquire(args_.turns + chunk) != place) {
                }
                join_async();
            }
            wait_for_phase(at_.sums_filled(which), static_cast<int>(turn_.phase));
            if (place > 0)
                add_floats(sums, at_.sums(which), T::kSumBytes);
            else
                store_bytes(sums, at_.sums(which), T::kSumBytes);
            finish_stores();
            join_async();
            store_release(args_.turns + chunk, place + 1);
            arrive(at_.sums_released(which));
            turn_ = turn_.plus<T::kStages>(1);
            walk.next();
        }
    }
};

} // namespace hw4::gpu::half_backward
