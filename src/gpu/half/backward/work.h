// What a backward launch consists of: a block of neighbouring keys of a head of K and V at a time, and the tiles of
// queries that see some of them.
#pragma once

#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/forward/work.h"

namespace hw4::gpu::half_backward {

using half_forward::takes_pieces;
using half_forward::View;

struct KeyJob {
    uint32_t batch;
    uint32_t kv_head;
    int block;
};

// Jobs in the order in which they are begun: of some heads at once, whose rows fit into the L2 cache together, the last
// block of each, then the one before it, ... So whoever waits for a later block's sums of dQ waits for a job that was
// begun before his own, and the one before him in the order is ahead of him by as many jobs as there are heads.
struct KeyWork {
    uint32_t jobs;
    uint32_t blocks; // of keys, of each head
    uint32_t units;  // heads of K and V
    uint32_t kv_heads;
    uint32_t together;

    KeyWork(const Args& args, int block_keys)
        : blocks(static_cast<uint32_t>((args.forward.keys + block_keys - 1) / block_keys)),
          units(static_cast<uint32_t>(args.kv_units())), kv_heads(static_cast<uint32_t>(args.forward.kv_heads)) {
        jobs = blocks * units;
        constexpr int64_t kCache = int64_t{32} << 20;
        const int64_t group = args.forward.heads / args.forward.kv_heads;
        const int64_t row_bytes = 8 * args.forward.dim; // Q, dO, and the sums of dQ
        const int64_t head_bytes = std::max<int64_t>(group * args.forward.queries * row_bytes, 1);
        together = static_cast<uint32_t>(std::clamp<int64_t>(kCache / head_bytes, 1, units));
    }

    __device__ KeyJob job(uint32_t index) const {
        const uint32_t before = index / (together * blocks) * together;
        const uint32_t these = min(together, units - before);
        const uint32_t within = index - before * blocks;
        const uint32_t unit = before + within % these;
        const uint32_t batch = unit / kv_heads;
        return {batch, unit - batch * kv_heads, static_cast<int>(blocks - 1 - within / these)};
    }
};

// The first query that sees the key; where none does, as many as there are.
__host__ __device__ inline int first_seeing(const View& view, int key) {
    if (!view.causal) return 0;
    const int query = key + 1 - view.of_first;
    return query < 0 ? 0 : query < view.queries ? query : view.queries;
}

// Tiles of kRows queries, from `first` to before `end`: those of which some see some of a block's keys.
struct QueryTiles {
    int first;
    int end;

    template <int kRows>
    static __host__ __device__ QueryTiles of(const View& view, int key) {
        const int query = first_seeing(view, key);
        const int all = (view.queries + kRows - 1) / kRows;
        return {query < view.queries ? query / kRows : all, all};
    }
    __host__ __device__ int count() const { return end - first; }
};

// Of the blocks whose sums go into dQ of a tile, from the last to the first, which one a block is.
template <int kRows, int kKeys>
__host__ __device__ int place_in_tile(const View& view, int tile, int block) {
    return view.tiles<kKeys>(tile * kRows, (tile + 1) * kRows) - 1 - block;
}

// What a kernel takes.
struct KernelArgs {
    KeyWork work;
    View view;
    Operand dq;
    Operand dk;
    Operand dv;
    unsigned* counters;
    unsigned* turns;     // [unit][tile][group]
    const float* levels; // [unit][padded]
    const float* origins;
    const float* products;
    float* sums; // of dQ
    int padded;  // queries of a unit
    uint32_t heads;
    uint32_t group; // heads that share a head of K and V
    int dim;
    float log2_scale;
    float scale;
    bool whole_pieces;

    KernelArgs(const Args& args, int block_keys)
        : work(args, block_keys), view(args.forward), dq(args.dq), dk(args.dk), dv(args.dv),
          padded(static_cast<int>(padded_queries(args.forward.queries))),
          heads(static_cast<uint32_t>(args.forward.heads)),
          group(static_cast<uint32_t>(args.forward.heads / args.forward.kv_heads)),
          dim(static_cast<int>(args.forward.dim)), log2_scale(args.forward.log2_scale()), scale(args.scale()),
          whole_pieces(takes_pieces(args.forward) && takes_pieces(args.dout) && takes_pieces(args.dq) &&
                       takes_pieces(args.dk) && takes_pieces(args.dv)) {
        const Scratch at(args);
        auto* const scratch = static_cast<unsigned char*>(args.scratch);
        counters = reinterpret_cast<unsigned*>(scratch + at.counters);
        turns = counters + kCounters;
        levels = reinterpret_cast<const float*>(scratch + at.levels);
        origins = reinterpret_cast<const float*>(scratch + at.origins);
        products = reinterpret_cast<const float*>(scratch + at.products);
        sums = reinterpret_cast<float*>(scratch + at.dq);
    }
};

} // namespace hw4::gpu::half_backward
