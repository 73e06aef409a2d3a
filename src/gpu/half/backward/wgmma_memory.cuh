// What a block of wgmma's backward kernel has in shared memory, and the tiles that its job goes through.
#pragma once

#include <cstddef>

#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/forward/wgmma_block.cuh"

namespace hw4::gpu::half_backward {

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
    static constexpr bool kAhead = Sizes::kDim > 64; // scores of the next tile before dQ and dK of this one
    static constexpr int kStages = 2;                // of queries, of dO and of dQ
    static constexpr int kThreads = (Sizes::kGroups + 1) * kGroupThreads;
    static constexpr int kReaders = Sizes::kGroups * kGroupThreads; // that release stages
    static constexpr int kCopierRegisters = 24;
    static constexpr int kGroupRegisters = 240;
    static constexpr int kFactBytes = Sizes::kQueries * 4;
    static constexpr int kPairPanel = Variant::kQueryPanel; // of dS: 64 keys, a group's
    static constexpr int kSumBytes = Sizes::kChunk * 4;     // of dQ, a group's
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
    uint64_t sums_filled[T::kStages][T::kGroups];
    uint64_t sums_released[T::kStages][T::kGroups];
    uint32_t job; // after the last, a number that is no job's
    uint32_t far; // some rows have origins

    __device__ void init_barriers() {
        init_stage(keys_filled, keys_released, T::kReaders + T::kGroups);
        for (int i = 0; i < T::kStages; ++i) {
            init_stage(queries_filled[i], queries_released[i], T::kReaders);
            init_stage(douts_filled[i], douts_released[i], T::kReaders);
        }
        // Filled by a group's warps, released by one thread.
        for (int i = 0; i < T::kStages; ++i)
            for (int group = 0; group < T::kGroups; ++group) {
                init_barrier(address_of(&sums_filled[i][group]), kGroupThreads / kWarpSize);
                init_barrier(address_of(&sums_released[i][group]), 1);
            }
    }
};

// Where things are in a block's shared memory.
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
    HW4_PLACE(sums, T::kSumBytes) // stage * groups + group
    HW4_PLACE(sums_filled, 8)     // likewise
    HW4_PLACE(sums_released, 8)   // likewise
#undef HW4_PLACE
};

// The tiles that a job goes through, the heads of its group one after the other: the threads that copy, compute and add
// up walk them in step.
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

} // namespace hw4::gpu::half_backward
