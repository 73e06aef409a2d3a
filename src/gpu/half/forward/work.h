// What a launch consists of: a block of neighbouring queries of a head at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/gpu/half/forward/args.h"

namespace hw4::gpu::half_forward {

constexpr int64_t kMostRows = int64_t{1} << 30; // of a head, so that their numbers and those beyond them are ints

// Some queries of a head, and how many keys they see.
struct View {
    int queries;
    int keys;
    int of_first; // keys that the first query sees; below 0: so many after it see none either
    bool causal;

    explicit View(const Args& args)
        : queries(static_cast<int>(args.queries)), keys(static_cast<int>(args.keys)),
          of_first(static_cast<int>(args.sight.first)), causal(args.causal()) {}

    // Of keys, from the first on, those that a query sees. Later queries see no less.
    __host__ __device__ int of(int query) const {
        if (!causal) return keys;
        const int seen = of_first + query;
        return seen < 0 ? 0 : seen < keys ? seen : keys;
    }
    // Tiles of kKeys that some of the queries from `first` to before `end` see, of those that exist.
    template <int kKeys>
    __host__ __device__ int tiles(int first, int end) const {
        const int last = (end < queries ? end : queries) - 1;
        return last < first || last < 0 ? 0 : (of(last) + kKeys - 1) / kKeys;
    }
};

struct Job {
    uint32_t batch;
    uint32_t head;
    int first; // query; below 0: the first of the job's rows are before all queries
};

// Jobs in the order in which they are begun. Heads that are at work together have keys and values that fit into the L2
// cache together. Under a mask the longest jobs of those heads come first, and what a head's jobs have more rows than
// it has queries, in whole groups, is before its first query: the job that lacks rows is then the one that sees least.
struct Work {
    uint32_t jobs;
    uint32_t blocks; // of queries, of each head
    uint32_t units;
    uint32_t heads;
    uint32_t together;
    int rows; // of a job
    int lead; // rows of a head's first job that are before its first query
    bool longest_first;

    Work(const Args& args, int block_rows, int group_rows)
        : blocks(static_cast<uint32_t>((args.queries + block_rows - 1) / block_rows)),
          units(static_cast<uint32_t>(args.units())), heads(static_cast<uint32_t>(args.heads)), rows(block_rows),
          lead(0), longest_first(args.causal()) {
        jobs = blocks * units;
        const int missing = static_cast<int>(int64_t{blocks} * rows - args.queries);
        if (longest_first) lead = missing / group_rows * group_rows;
        constexpr int64_t kCache = int64_t{32} << 20;
        const int64_t head_bytes = std::max<int64_t>(args.keys * args.dim * 4, 1);
        const int64_t fitting = kCache / head_bytes * (args.heads / args.kv_heads);
        together = static_cast<uint32_t>(std::clamp<int64_t>(fitting, 1, args.units()));
    }

    __device__ Job job(uint32_t index) const {
        uint32_t unit = index / blocks;
        uint32_t block = index - unit * blocks;
        if (longest_first) {
            const uint32_t before = index / (together * blocks) * together;
            const uint32_t these = min(together, units - before);
            const uint32_t within = index - before * blocks;
            block = blocks - 1 - within / these;
            unit = before + within % these;
        }
        const uint32_t batch = unit / heads;
        return {batch, unit - batch * heads, static_cast<int>(block) * rows - lead};
    }
};

// Operands whose rows the copy engine and 16-byte accesses can take.
inline bool takes_pieces(const Operand& of) {
    const auto whole = [](int64_t elements) { return elements % 8 == 0; };
    return reinterpret_cast<uintptr_t>(of.at) % 16 == 0 && whole(of.row) && whole(of.head) && whole(of.batch);
}

inline bool takes_pieces(const Args& args) {
    return args.dim % 8 == 0 && takes_pieces(args.q) && takes_pieces(args.k) && takes_pieces(args.v) &&
           takes_pieces(args.out);
}

// What a kernel takes whose jobs have so many rows, in groups of so many.
struct KernelArgs {
    Work work;
    View view;
    Operand out;
    RowStatistics* statistics;
    int64_t statistics_unit;
    unsigned* counter;
    uint32_t group; // heads that share a head of K and V
    int dim;
    float log2_scale;
    bool whole_pieces;

    KernelArgs(const Args& args, int rows, int group_rows)
        : work(args, rows, group_rows), view(args), out(args.out), statistics(args.statistics),
          statistics_unit(args.statistics_unit), counter(args.counter),
          group(static_cast<uint32_t>(args.heads / args.kv_heads)), dim(static_cast<int>(args.dim)),
          log2_scale(args.log2_scale()), whole_pieces(takes_pieces(args)) {}
};

} // namespace hw4::gpu::half_forward
