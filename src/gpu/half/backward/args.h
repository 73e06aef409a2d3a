// The arguments of the backward kernels of half precision.
//
// P = 2^(c * (score - origin) - L); 0 if the key is not visible. origin, M and l are forward's (row_statistics.h), and
// L = M + log2(l).
//
// dS = P * (dO v^T - D), D = dO . O with the O that forward wrote.
//
// dV = sum over queries of P dO, dK = g * sum of dS q, dQ = g * sum over keys of dS k, with g = the scale. P and dS are
// rounded to the type before these products.
//
// Sums are float32. dK, dV: heads of the group ascending, in each head tiles of queries ascending. dQ: blocks of keys
// descending, added one after the other to the sum in memory or in registers. The tiles depend only on d, so every
// row's bytes depend only on its head's tensors and the mask.
#pragma once

#include <cuda_runtime.h>

#include "src/gpu/half/forward/args.h"

namespace hw4::gpu::half_backward {

using half_forward::NumberType;
using half_forward::Operand;

struct Args {
    half_forward::Args forward; // with O and its rows' statistics, which are set
    Operand dout;
    Operand dq;
    Operand dk;
    Operand dv;
    float scale = 1;         // the factor of dQ and dK
    void* scratch = nullptr; // Scratch::end bytes, used by one launch at a time

    int64_t kv_units() const { return forward.batches * forward.kv_heads; }
};

// Rows of a head in scratch memory: a multiple of every kernel's tile.
constexpr int64_t kPaddedQueries = 128;

inline int64_t padded_queries(int64_t queries) {
    return (queries + kPaddedQueries - 1) / kPaddedQueries * kPaddedQueries;
}

// Numbers at the beginning of scratch memory, 0 before a launch.
enum Counter { kKeyJobs, kFarRows, kCounters };

// The layout of scratch memory, in bytes.
struct Scratch {
    static constexpr int64_t kAlignment = 256;
    static constexpr int64_t kTurnRows = 64; // the fewest queries of a tile, which has a turn

    int64_t counters = 0; // Counters, then the turns
    int64_t counter_count;
    int64_t levels;   // L, [unit][padded queries]
    int64_t origins;  // the same shape
    int64_t products; // D, the same shape
    int64_t dq;       // float32 sums of dQ, for d up to 128
    int64_t end;

    Scratch(int64_t units, int64_t queries, int64_t dim) {
        const auto after = [](int64_t offset, int64_t bytes) {
            return (offset + bytes + kAlignment - 1) / kAlignment * kAlignment;
        };
        const int64_t rows = units * padded_queries(queries);
        counter_count = kCounters + rows / kTurnRows;
        levels = after(counters, counter_count * 4);
        origins = after(levels, rows * 4);
        products = after(origins, rows * 4);
        dq = after(products, rows * 4);
        end = after(dq, rows * 4 * (dim <= 64 ? 64 : dim <= 128 ? 128 : 0));
    }
    explicit Scratch(const Args& args) : Scratch(args.forward.units(), args.forward.queries, args.forward.dim) {}
};

// ---- The work of a backward launch: a block of adjacent keys of a head of K and V at a time, and the tiles of queries
// that see some of them.

using half_forward::takes_pieces;
using half_forward::View;

struct KeyJob {
    uint32_t batch;
    uint32_t kv_head;
    int block;
};

// The order in which jobs start: for some heads at once, with rows that fit into the L2 cache together, first the last
// block of each, then the one before it, ... So a block that waits for a later block's sums of dQ waits for a job that
// started before its own, ahead of it by as many jobs as there are heads.
struct KeyWork {
    uint32_t jobs;
    uint32_t blocks; // of keys, in each head
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
        const uint32_t these = together < units - before ? together : units - before;
        const uint32_t within = index - before * blocks;
        const uint32_t unit = before + within % these;
        const uint32_t batch = unit / kv_heads;
        return {batch, unit - batch * kv_heads, static_cast<int>(blocks - 1 - within / these)};
    }
};

// The first query that sees the key; the number of queries if none does.
__host__ __device__ inline int first_seeing(const View& view, int key) {
    if (!view.causal) return 0;
    const int query = key + 1 - view.of_first;
    return query < 0 ? 0 : query < view.queries ? query : view.queries;
}

// The tiles of kRows queries, from `first` to before `end`, with a query that sees some of a block's keys.
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

// A block's position among the blocks that add to dQ of a tile, from the last to the first.
template <int kRows, int kKeys>
__host__ __device__ int place_in_tile(const View& view, int tile, int block) {
    return view.tiles<kKeys>(tile * kRows, (tile + 1) * kRows) - 1 - block;
}

// The arguments of a kernel.
struct KernelArgs {
    KeyWork work;
    View view;
    Operand dq;
    Operand dk;
    Operand dv;
    unsigned* counters;
    unsigned* turns;     // [unit][tile]
    const float* levels; // [unit][padded]
    const float* origins;
    const float* products;
    float* sums; // of dQ
    int padded;  // queries in a unit
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
          dim(static_cast<int>(args.forward.dim)), log2_scale(args.forward.log2_scale), scale(args.scale),
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

// ---- Tiles of wgmma's backward kernel, and the layout of its sums of dQ in memory

constexpr int kSumThreads = 128; // in a group

// Two groups with 64 of the keys each share a tile of pairs. For dQ each has 64 queries and all columns or, for tiles
// of 64 queries, half of the columns.
template <int kDim_, int kQueries_>
struct Sizes {
    static constexpr int kDim = kDim_; // smaller d have columns of zeros
    static constexpr int kQueries = kQueries_;
    static constexpr int kKeys = 128;
    static constexpr int kGroups = 2;
    static constexpr bool kSplitsColumns = kQueries == 64;
    static constexpr int kGroupSums = kQueries * kDim / (kGroups * kSumThreads); // of a thread
    static constexpr int kChunk = kGroupSums * kSumThreads;                      // of a group: [four][thread][4]

    static_assert(kGroupSums == 32, "64 rows of 64 columns");
};

using Sizes64 = Sizes<64, 128>;
using Sizes128 = Sizes<128, 64>;

// ---- The passes over the rows of queries before and after the pairs

// Writes L and D of every row to scratch memory, and sets the counters there to 0.
void prepare_rows(const Args& args, cudaStream_t stream);

// Computes dQ from its sums in scratch memory, which have the order of the lanes of wgmma's groups: for tiles of 64 or
// 128 queries, d up to 64 or 128.
void finish_queries(const Args& args, cudaStream_t stream);

} // namespace hw4::gpu::half_backward
