// The shared memory of a block of wgmma's backward kernel, and its threads that do not multiply: one starts the copies
// of tiles, and one for each stage of dQ adds it to its sums in global memory.
#pragma once

#include <cstddef>

#include "src/gpu/common/handover.cuh"
#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/forward/wgmma_block.cuh"

namespace hw4::gpu::half_backward {

// ---- The block's shared memory, and the tiles of its job

using half_forward::arrive_by_warp;
using half_forward::begin_group;
using half_forward::copy_panels;
using half_forward::init_stage;
using half_forward::kBoxColumns;
using half_forward::key_map;
using half_forward::kGroupThreads;
using half_forward::launch_blocks;
using half_forward::memory_of_block;
using half_forward::Panels;
using half_forward::prepare_block;
using half_forward::query_map;

constexpr int kGroupKeys = 64;

template <class Sizes_>
struct Variant : Sizes_, Panels<Sizes_::kDim, Sizes_::kQueries, Sizes_::kKeys> {
    using Sizes = Sizes_;
    static constexpr bool kAhead = Sizes::kDim > 64; // S and dP of the next tile during the handover of dQ
    static constexpr int kStages = 2;                // of queries, of dO and of dQ
    static constexpr int kThreads = (Sizes::kGroups + 1) * kGroupThreads;
    static constexpr int kReaders = Sizes::kGroups * kGroupThreads; // threads that release stages
    static constexpr int kCopierRegisters = 24;
    static constexpr int kGroupRegisters = 240;
    static constexpr int kFactBytes = Sizes::kQueries * 4;
    static constexpr int kPairPanel = Variant::kQueryPanel; // of dS: 64 keys, of one group
    static constexpr int kSumBytes = Sizes::kChunk * 4;     // of dQ, of one group
    static constexpr int kAdders = kStages;                 // threads
};

template <class T>
struct BlockMemory {
    alignas(1024) unsigned char keys[T::kKeyBytes];
    unsigned char values[T::kKeyBytes];
    unsigned char queries[T::kStages][T::kQueryBytes];
    unsigned char douts[T::kStages][T::kQueryBytes];
    unsigned char pairs[T::kGroups * T::kPairPanel];
    unsigned char sums[T::kStages][T::kGroups][T::kSumBytes];
    float levels[T::kStages][T::kQueries];
    float origins[T::kStages][T::kQueries];
    float products[T::kStages][T::kQueries];
    uint64_t keys_filled;
    uint64_t keys_released;
    uint64_t queries_filled[T::kStages];
    uint64_t queries_released[T::kStages];
    uint64_t douts_filled[T::kStages];
    uint64_t douts_released[T::kStages];
    uint64_t sums_filled[T::kStages];
    uint64_t sums_released[T::kStages];
    uint32_t job; // after the last job, a number without a job
    uint32_t far; // whether some rows have origins

    __device__ void init_barriers() {
        init_stage(keys_filled, keys_released, T::kReaders + T::kAdders);
        for (int i = 0; i < T::kStages; ++i) {
            init_stage(queries_filled[i], queries_released[i], T::kReaders);
            init_stage(douts_filled[i], douts_released[i], T::kReaders);
            // The groups' warps fill them, one thread releases them.
            init_barrier(address_of(&sums_filled[i]), T::kReaders / kWarpSize);
            init_barrier(address_of(&sums_released[i]), 1);
        }
    }
};

// The addresses of things in a block's shared memory.
template <class T>
struct Addresses {
    using Memory = BlockMemory<T>;
    SharedAddress memory;

#define HW4_PLACE(name, bytes)                                                                                         \
    __device__ __forceinline__ SharedAddress name(unsigned stage = 0) const {                                          \
        return memory + static_cast<uint32_t>(offsetof(Memory, name)) + stage * static_cast<uint32_t>(bytes);          \
    }
    HW4_PLACE(keys, 0)
    HW4_PLACE(values, 0)
    HW4_PLACE(queries, T::kQueryBytes)
    HW4_PLACE(douts, T::kQueryBytes)
    HW4_PLACE(pairs, T::kPairPanel)
    HW4_PLACE(levels, T::kFactBytes)
    HW4_PLACE(origins, T::kFactBytes)
    HW4_PLACE(products, T::kFactBytes)
    HW4_PLACE(keys_filled, 0)
    HW4_PLACE(keys_released, 0)
    HW4_PLACE(queries_filled, 8)
    HW4_PLACE(queries_released, 8)
    HW4_PLACE(douts_filled, 8)
    HW4_PLACE(douts_released, 8)
    HW4_PLACE(sums, T::kGroups* T::kSumBytes)
    HW4_PLACE(sums_filled, 8)
    HW4_PLACE(sums_released, 8)
#undef HW4_PLACE
};

// The tiles of a job, head by head of its group: the threads that copy, compute and add go through them in step.
template <class T>
struct Walk {
    KeyJob job;
    QueryTiles tiles;
    uint32_t group;
    uint32_t head; // of queries
    int tile;

    __device__ Walk(const KernelArgs& args, uint32_t number)
        : job(args.work.job(number)), tiles(QueryTiles::of<T::kQueries>(args.view, job.block * T::kKeys)),
          group(args.group), head(job.kv_head * group), tile(tiles.first) {}

    __device__ __forceinline__ int count() const { return tiles.count() * static_cast<int>(group); }
    __device__ __forceinline__ void next() {
        if (++tile < tiles.end) return;
        tile = tiles.first;
        ++head;
    }
    __device__ __forceinline__ uint32_t unit(const KernelArgs& args) const { return job.batch * args.heads + head; }
};

// ---- The threads that do not multiply

// One thread starts all copies, in the order in which they are waited for.
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

    // Starts the first of the copies of `bytes` bytes that arrive at `filled`. A barrier that was not used yet counts
    // as one that has just ended its round.
    __device__ __forceinline__ void copy_tile(const CUtensorMap& map, SharedAddress to, SharedAddress filled,
                                              SharedAddress released, int bytes, const Walk<T>& walk) {
        wait_for_phase(released, static_cast<int>(turn_.phase ^ 1));
        expect_bytes(filled, bytes);
        copy_panels<T::kPanels, T::kQueryPanel>(to, map, walk.tile * T::kQueries, static_cast<int>(walk.head),
                                                static_cast<int>(walk.job.batch), filled);
    }
};

// Copies from shared to global memory with the copy engine; the thread that starts a copy waits for it.
__device__ __forceinline__ void store_bytes(float* to, SharedAddress from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void add_floats(float* to, SharedAddress from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void finish_reads() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void finish_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Orders the copy engine's accesses and the threads' accesses, for all memory.
__device__ __forceinline__ void join_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// One thread for each stage adds both groups' dQ to the sums in global memory. From waiting for the tile's turn to
// giving the next block its turn, an addition takes about as long as a tile: with one thread for all tiles, the groups
// would wait for room a fifth of their time.
template <class T>
class Adder {
public:
    __device__ Adder(BlockMemory<T>& memory, const KernelArgs& args, unsigned stage)
        : memory_(memory), at_{address_of(&memory)}, args_(args), stage_(stage) {}

    __device__ void run() {
        for (unsigned phase = 0;; phase ^= 1) {
            wait_for_phase(at_.keys_filled(), static_cast<int>(phase));
            const uint32_t number = *const_cast<volatile uint32_t*>(&memory_.job);
            if (number >= args_.work.jobs) return;
            arrive(at_.keys_released());
            Walk<T> walk(args_, number);
#pragma unroll 1
            for (int left = walk.count(); left > 0; --left) {
                if (turn_.stage == stage_) add(walk);
                turn_ = turn_.plus<T::kStages>(1);
                walk.next();
            }
        }
    }

private:
    BlockMemory<T>& memory_;
    Addresses<T> at_;
    const KernelArgs& args_;
    const unsigned stage_;
    RingPosition turn_;

    __device__ __forceinline__ void add(const Walk<T>& walk) {
        const uint32_t tiles = static_cast<uint32_t>(args_.padded / T::kQueries);
        const uint32_t tile = walk.unit(args_) * tiles + static_cast<uint32_t>(walk.tile);
        float* const sums = args_.sums + int64_t{tile} * T::kGroups * T::kChunk;
        const auto place =
            static_cast<unsigned>(place_in_tile<T::kQueries, T::kKeys>(args_.view, walk.tile, walk.job.block));
        if (place > 0) {
            while (load_acquire(args_.turns + tile) != place) {
            }
            join_async();
        }
        wait_for_phase(at_.sums_filled(stage_), static_cast<int>(turn_.phase));
        if (place > 0)
            add_floats(sums, at_.sums(stage_), T::kGroups * T::kSumBytes);
        else
            store_bytes(sums, at_.sums(stage_), T::kGroups * T::kSumBytes);
        commit_stores();
        finish_reads();
        arrive(at_.sums_released(stage_));
        finish_stores();
        join_async();
        store_release(args_.turns + tile, place + 1);
    }
};

} // namespace hw4::gpu::half_backward
