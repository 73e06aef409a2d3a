// round_rows, widen_rows: what half precision takes beside its kernel where operands are float32.
//
// Idea      A thread takes 8 columns at a time, which are 16 bytes as 16-bit numbers.
// Who       A block for some rows of one head of Q, K or V; of O likewise.
// Limits    Memory: 6 bytes a number each way.
#include "src/gpu/half/forward/float_operands.h"

#include <algorithm>

#include "src/gpu/common/forward_args.h"
#include "src/gpu/device/check.h"
#include "src/gpu/half/forward/numbers.cuh"

namespace hw4::gpu::half_forward {
namespace {

constexpr int kThreads = 256;
constexpr int kPiece = 8;           // columns
constexpr int kPieces = 4;          // of a thread
constexpr int64_t kAlignment = 256; // of what is in scratch memory

// Where things are in scratch memory, in bytes.
struct Offsets {
    int64_t q = kAlignment; // the counter is before it
    int64_t k;
    int64_t v;
    int64_t end;

    Offsets(const Problem& problem, int64_t queries) {
        const auto bytes = [&](int64_t rows) {
            return (2 * rows * padded_columns(problem.dim) + kAlignment - 1) / kAlignment * kAlignment;
        };
        const int64_t of_keys = bytes(problem.batches * problem.kv_heads * problem.keys);
        k = q + bytes(problem.units() * queries);
        v = k + of_keys;
        end = v + of_keys;
    }
};

// How the rows of all heads are divided into blocks.
struct Rows {
    uint32_t of_head;
    uint32_t heads;
    uint32_t of_block;
    uint32_t blocks_of_head;

    Rows(int64_t rows, int64_t head_count, int64_t dim)
        : of_head(static_cast<uint32_t>(rows)), heads(static_cast<uint32_t>(head_count)),
          of_block(static_cast<uint32_t>(kThreads * kPieces * kPiece / padded_columns(dim))),
          blocks_of_head((of_head + of_block - 1) / of_block) {}

    HW4_INLINE uint32_t blocks() const { return heads * blocks_of_head; }
};

template <class T>
struct Part {
    Heads<T> floats;
    uint16_t* numbers; // [head][row][padded dim]
    Rows rows;
};

struct RoundArgs {
    Part<const float> parts[kMostRounded];
    unsigned* counter;
    int dim;
};

struct WidenArgs {
    Part<float> part;
    int dim;
};

// take(a row's floats, its numbers, column) for each piece of the block.
template <class T, class Take>
__device__ __forceinline__ void for_pieces(const Part<T>& part, uint32_t block, int dim, const Take& take) {
    const uint32_t head = block / part.rows.blocks_of_head;
    const uint32_t first = (block - head * part.rows.blocks_of_head) * part.rows.of_block;
    const uint32_t rows = min(part.rows.of_block, part.rows.of_head - first);
    const auto columns = static_cast<uint32_t>((dim + kPiece - 1) / kPiece * kPiece);
    const uint32_t pieces = columns / kPiece;
    T* const floats = part.floats.of(head) + first * part.floats.row;
    uint16_t* const numbers = part.numbers + (int64_t{head} * part.rows.of_head + first) * columns;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const uint32_t piece = threadIdx.x + static_cast<uint32_t>(i) * kThreads;
        const uint32_t row = piece / pieces;
        const uint32_t column = (piece - row * pieces) * kPiece;
        if (row < rows)
            take(floats + row * part.floats.row + column, numbers + row * columns + column, static_cast<int>(column));
    }
}

template <class Number>
__global__ void __launch_bounds__(kThreads) round_rows(const __grid_constant__ RoundArgs args) {
#if __CUDA_ARCH__ >= 800
    if (blockIdx.x == 0 && threadIdx.x == 0) *args.counter = 0;
    uint32_t block = blockIdx.x;
    int index = 0;
    for (; block >= args.parts[index].rows.blocks(); ++index) block -= args.parts[index].rows.blocks();
    for_pieces(args.parts[index], block, args.dim, [&](const float* from, uint16_t* to, int column) {
        float x[kPiece];
        if (args.dim % 4 == 0) { // rows take float4
            const float4 low = *reinterpret_cast<const float4*>(from);
            const float4 high =
                column + 4 < args.dim ? *reinterpret_cast<const float4*>(from + 4) : make_float4(0, 0, 0, 0);
            x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
            x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
        } else {
#pragma unroll
            for (int i = 0; i < kPiece; ++i) x[i] = column + i < args.dim ? from[i] : 0.0f;
        }
        *reinterpret_cast<uint4*>(to) = make_uint4(Number::pack(x[0], x[1]), Number::pack(x[2], x[3]),
                                                   Number::pack(x[4], x[5]), Number::pack(x[6], x[7]));
    });
#else
    __trap();
#endif
}

template <class Number>
__global__ void __launch_bounds__(kThreads) widen_rows(const __grid_constant__ WidenArgs args) {
#if __CUDA_ARCH__ >= 800
    for_pieces(args.part, blockIdx.x, args.dim, [&](float* to, const uint16_t* from, int column) {
        const uint4 words = *reinterpret_cast<const uint4*>(from);
        const float x[kPiece] = {Number::low(words.x),  Number::high(words.x), Number::low(words.y),
                                 Number::high(words.y), Number::low(words.z),  Number::high(words.z),
                                 Number::low(words.w),  Number::high(words.w)};
        if (args.dim % 4 == 0) {
            *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
            if (column + 4 < args.dim) *reinterpret_cast<float4*>(to + 4) = make_float4(x[4], x[5], x[6], x[7]);
        } else {
#pragma unroll
            for (int i = 0; i < kPiece; ++i)
                if (column + i < args.dim) to[i] = x[i];
        }
    });
#else
    __trap();
#endif
}

template <class T>
Part<T> part_of(const RowsOfHeads<T>& operand, int dim) {
    return {operand.floats, static_cast<uint16_t*>(operand.numbers), Rows(operand.rows, operand.heads, dim)};
}

} // namespace

void round_all(const RowsOfHeads<const float>* operands, int count, int dim, unsigned* counter, NumberType type,
               cudaStream_t stream) {
    RoundArgs round{{part_of(operands[0], dim), part_of(operands[0], dim), part_of(operands[0], dim),
                     part_of(operands[0], dim), part_of(operands[0], dim)},
                    counter,
                    dim};
    uint32_t blocks = 0;
    for (int i = 0; i < count; ++i) {
        round.parts[i] = part_of(operands[i], dim);
        blocks += round.parts[i].rows.blocks();
    }
    const auto kernel = type == NumberType::bf16 ? round_rows<Bf16> : round_rows<Fp16>;
    kernel<<<blocks, kThreads, 0, stream>>>(round);
    HW4_CUDA_LAUNCHED("round_rows");
}

void widen(const RowsOfHeads<float>& operand, int dim, NumberType type, cudaStream_t stream) {
    const WidenArgs widen{part_of(operand, dim), dim};
    const auto kernel = type == NumberType::bf16 ? widen_rows<Bf16> : widen_rows<Fp16>;
    kernel<<<widen.part.rows.blocks(), kThreads, 0, stream>>>(widen);
    HW4_CUDA_LAUNCHED("widen_rows");
}

size_t rounded_bytes(const Problem& problem) { return static_cast<size_t>(Offsets(problem, problem.queries).end); }

Args round_operands(const Launch& launch, NumberType type, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    const ForwardArgs from = forward_args(launch);
    const int64_t queries = launch.queries();
    const int64_t columns = padded_columns(problem.dim);
    const Offsets offsets(problem, queries);
    const auto at = [&](int64_t offset) { return static_cast<unsigned char*>(launch.scratch) + offset; };
    Args args;
    args.type = type;
    args.batches = problem.batches;
    args.heads = problem.heads;
    args.kv_heads = problem.kv_heads;
    args.queries = queries;
    args.keys = problem.keys;
    args.dim = columns;
    args.root_of = problem.dim;
    args.sight = from.sight;
    args.q = packed(at(offsets.q), queries, problem.heads, columns);
    args.k = packed(at(offsets.k), problem.keys, problem.kv_heads, columns);
    args.v = packed(at(offsets.v), problem.keys, problem.kv_heads, columns);
    args.out = args.q;
    args.statistics = from.statistics;
    args.statistics_unit = from.statistics_unit;
    args.counter = static_cast<unsigned*>(launch.scratch);

    const int64_t kv_units = problem.batches * problem.kv_heads;
    const RowsOfHeads<const float> operands[] = {{from.q, args.q.at, queries, problem.units()},
                                                 {from.k, args.k.at, problem.keys, kv_units},
                                                 {from.v, args.v.at, problem.keys, kv_units}};
    round_all(operands, 3, from.dim, args.counter, type, stream);
    return args;
}

void widen_output(const Launch& launch, const Args& args, cudaStream_t stream) {
    const ForwardArgs to = forward_args(launch);
    widen({to.out, args.out.at, args.queries, args.units()}, to.dim, args.type, stream);
}

} // namespace hw4::gpu::half_forward
