// The arguments of the kernels of half precision.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/contracts/row_statistics.h"
#include "src/contracts/scale.h"
#include "src/gpu/launch.h"
#include "src/problem/mask.h"

namespace hw4::gpu::half_forward {

enum class NumberType { bf16, fp16 };

// Rows of 16-bit numbers in device memory; the columns of a row are contiguous. Distances in elements.
struct Operand {
    void* at = nullptr;
    int64_t row = 0;
    int64_t head = 0;
    int64_t batch = 0;
};

// O = softmax(scale * Q K^T) V. A row that sees no key is 0.
struct Args {
    NumberType type = NumberType::bf16;
    int64_t batches = 1;
    int64_t heads = 1;
    int64_t kv_heads = 1; // a divisor of heads
    int64_t queries = 1;
    int64_t keys = 1;
    int64_t dim = 1;
    float log2_scale = 1;    // the factor of scores as exponents of 2
    VisibleKeys sight{1, 0}; // of the queries, from the first on
    Operand q;
    Operand k;
    Operand v;
    Operand out;
    RowStatistics* statistics = nullptr; // [batch and head][query]; null: not wanted
    int64_t statistics_unit = 0;         // from one head to the next
    unsigned* counter = nullptr; // for one launch at a time, which clears it; null: blocks take jobs in a fixed order

    int64_t units() const { return batches * heads; }
    bool causal() const { return sight.more != 0; }
};

// Columns of a row: whole pieces of 16 bytes.
constexpr int64_t padded_columns(int64_t dim) { return (dim + 7) / 8 * 8; }

inline Operand operand_of(const Tensor& tensor) { return {tensor.data, tensor.row, tensor.head, tensor.batch}; }

// The arguments of forward for a launch, on tensors of 16-bit numbers with rows of padded_columns().
inline Args args_of(const Launch& launch) {
    const Problem& problem = launch.problem;
    Args args;
    args.type = problem.element == Element::bf16 ? NumberType::bf16 : NumberType::fp16;
    args.batches = problem.batches;
    args.heads = problem.heads;
    args.kv_heads = problem.kv_heads;
    args.queries = launch.queries();
    args.keys = problem.keys;
    args.dim = padded_columns(problem.dim);
    args.log2_scale = scale_for(problem.key_dim(), problem.scale).c;
    args.sight = sight_of(problem.mask, problem.queries, problem.keys);
    args.sight.first += launch.first_query * args.sight.more;
    args.q = operand_of(launch.in[0].from_row(launch.first_query));
    args.k = operand_of(launch.in[1]);
    args.v = operand_of(launch.in[2]);
    args.out = operand_of(launch.out[0].from_row(launch.first_query));
    args.statistics = launch.statistics == nullptr ? nullptr : launch.statistics + launch.first_query;
    args.statistics_unit = problem.queries;
    args.counter = static_cast<unsigned*>(launch.scratch);
    return args;
}

// ---- The work of a launch: a block of adjacent queries of a head at a time

constexpr int64_t kMostRows = int64_t{1} << 30; // in a head, so that row numbers and those beyond them are ints

// Some queries of a head, and the number of keys they see.
struct View {
    int queries;
    int keys;
    int of_first; // keys that the first query sees; -n: neither it nor the next n queries see any
    bool causal;

    explicit View(const Args& args)
        : queries(static_cast<int>(args.queries)), keys(static_cast<int>(args.keys)),
          of_first(static_cast<int>(args.sight.first)), causal(args.causal()) {}

    // The number of keys that a query sees, from the first on. Later queries see no fewer.
    __host__ __device__ int of(int query) const {
        if (!causal) return keys;
        const int seen = of_first + query;
        return seen < 0 ? 0 : seen < keys ? seen : keys;
    }
    // Tiles of kKeys that any existing query from `first` to before `end` sees.
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

// The order in which jobs start. Heads that run together have keys and values that fit into the L2 cache together.
// Under a mask the longest jobs of these heads come first, and the rows that a head's jobs have beyond its number of
// queries, in whole groups, are before its first query: then the job that lacks rows is the one that sees least.
struct Work {
    uint32_t jobs;
    uint32_t blocks; // of queries, in each head
    uint32_t units;
    uint32_t heads;
    uint32_t together;
    int rows; // in a job
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
            const uint32_t these = together < units - before ? together : units - before;
            const uint32_t within = index - before * blocks;
            block = blocks - 1 - within / these;
            unit = before + within % these;
        }
        const uint32_t batch = unit / heads;
        return {batch, unit - batch * heads, static_cast<int>(block) * rows - lead};
    }
};

// Whether the copy engine and 16-byte accesses can take these rows.
inline bool takes_pieces(const Operand& of) {
    const auto whole = [](int64_t elements) { return elements % 8 == 0; };
    return reinterpret_cast<uintptr_t>(of.at) % 16 == 0 && whole(of.row) && whole(of.head) && whole(of.batch);
}

inline bool takes_pieces(const Args& args) {
    return args.dim % 8 == 0 && takes_pieces(args.q) && takes_pieces(args.k) && takes_pieces(args.v) &&
           takes_pieces(args.out);
}

// The arguments of a kernel with jobs of `block_rows` rows, in groups of `group_rows`.
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
          log2_scale(args.log2_scale), whole_pieces(takes_pieces(args)) {}
};

} // namespace hw4::gpu::half_forward
