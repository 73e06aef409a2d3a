// split_bf16, split_fp16: few query rows against many keys, as in decoding, on tensor cores from compute capability 8.0
// on.
//
// Idea      Memory sets the speed: K and V are read once for all query rows that share them, and the keys of a sequence
//           are cut into parts (split_parts.h) for as many blocks as the card has. A second launch adds the parts.
// Who       A block of four warps for a part of the keys of up to 16 or 32 rows. A warp takes every fourth tile of 16
// or
//           32 keys, copies it itself and waits for no other warp; the four are added up in shared memory at the end.
// Memory    Each warp has a ring of tiles of K and V. Partial sums of O are float32 in scratch memory, only for rows
//           that exist and that see more than one part; other rows are written at once.
// Overlap   Two tiles of each of a multiprocessor's eight warps are on their way while a third is computed. The longest
//           parts begin first, so that blocks end together.
// Order     Tiles of a warp, warps of a part and parts of a sequence are added up by their positions alone.
// Limits    More than 32 rows (d > 128: 16) that share keys read them again, from the L2 cache.
#include <algorithm>

#include "src/gpu/device/check.h"
#include "src/gpu/half/forward/mma_rows.cuh"
#include "src/gpu/half/forward/output_rows.cuh"
#include "src/gpu/half/forward/split_parts.h"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_forward {
namespace {

constexpr int kWarps = kMmaThreads / kWarpSize;

template <class Number_, int kDim_, int kRowTiles_, int kStages_ = kDim_ == 256 ? 2 : 3,
          int kBlocks_ = kDim_ == 256 ? 1 : 2>
struct SplitTile {
    using Number = Number_;
    static constexpr int kDim = kDim_; // smaller ones have columns of zeros
    static constexpr int kRowTiles = kRowTiles_;
    static constexpr int kRows = 16 * kRowTiles;
    static constexpr int kKeys = kDim == 64 ? 32 : 16;
    static constexpr int kStages = kStages_;
    static constexpr int kBlocks = kBlocks_; // of a multiprocessor

    struct Stage {
        alignas(16) uint16_t keys[kKeys][kDim + 8];
        alignas(16) uint16_t values[kKeys][kDim + 8];
    };
    // What the warps have for a part: with rows this far apart, stores of pairs are without bank conflicts.
    struct Merge {
        alignas(16) float sums[kWarps][kRows][kDim + 8];
        float top[kWarps][kRows];
        float sum[kWarps][kRows];
    };
    union Memory {
        Stage stages[kWarps][kStages];
        Merge merge;
    };
};

struct SplitArgs {
    Args half;
    const int32_t* lengths; // [batch]; null: all have half.keys
    float* sums;            // [row][part][kDim], rows as [batch][head][query]
    float2* tops;           // [row][part]: the largest score, the sum of the weights
    unsigned units;         // blocks of rows
    int row_blocks;         // for a head of K and V
    int group;              // heads that share it
    int parts;              // of half.keys
    int slots;              // a block takes every so many-th part
};

// A query row, and how many keys it sees.
struct SplitRow {
    int64_t batch, head, query;
    int seen;
};

// Rows of a head of K and V count its heads of queries one after the other.
__device__ __forceinline__ SplitRow row_at(const SplitArgs& args, int64_t batch, int64_t kv_head, int row) {
    const Args& half = args.half;
    const int queries = static_cast<int>(half.queries);
    const int all = static_cast<int>(half.keys);
    const int keys = args.lengths == nullptr ? all : min(max(args.lengths[batch], 0), all);
    const int query = row % queries;
    const int seen = half.sight.more == 0 ? keys : keys - all + static_cast<int>(half.sight.first) + query;
    return {batch, kv_head * args.group + row / queries, query, max(seen, 0)};
}

// What the sums of a part are to be multiplied by where another has a larger top.
__device__ __forceinline__ float factor_of(float top, float most, float scale) {
    if (top == most) return 1;
    const float base = __fmul_rn(most, scale);
    if (fabsf(base) > RunningRows::kFar) return power_of_2(__fmul_rn(__fsub_rn(top, most), scale));
    return power_of_2(__fsub_rn(__fmul_rn(top, scale), base));
}

__device__ __forceinline__ void add_times(float4& to, const float4& x, float factor) {
    to.x = __fmaf_rn(x.x, factor, to.x);
    to.y = __fmaf_rn(x.y, factor, to.y);
    to.z = __fmaf_rn(x.z, factor, to.z);
    to.w = __fmaf_rn(x.w, factor, to.w);
}

// Four columns of a row that has ended, and with the first its statistics.
template <class Number>
__device__ __forceinline__ void store_output(const SplitArgs& args, const SplitRow& row, int column, const float4& o,
                                             float top, float sum) {
    const Args& half = args.half;
    const float inverse = sum == 0.0f ? 0.0f : __frcp_rn(sum);
    const auto word = [&](float low, float high) { // a sum of -0 is +0, as it is after an addition of parts
        return output_word<Number>(__fadd_rn(low, 0.0f), __fadd_rn(high, 0.0f), inverse);
    };
    uint16_t* const to = static_cast<uint16_t*>(half.out.at) + row.batch * half.out.batch + row.head * half.out.head +
                         row.query * half.out.row + column;
    if (column < half.dim) *reinterpret_cast<uint2*>(to) = make_uint2(word(o.x, o.y), word(o.z, o.w));
    if (column > 0 || half.statistics == nullptr) return;
    RunningRows ended;
    ended.top[0] = top;
    ended.sum[0] = sum;
    half.statistics[(row.batch * half.heads + row.head) * half.statistics_unit + row.query] =
        ended.statistics(0, half.log2_scale);
}

// Rows that share a head of K and V, as one block has them.
struct SplitUnit {
    int64_t batch, kv_head;
    int first; // row
    int rows;
    int seen; // keys that the rows see at most

    __device__ SplitUnit(const SplitArgs& args, unsigned index, int most_rows) {
        const unsigned head = index / static_cast<unsigned>(args.row_blocks);
        batch = head / static_cast<unsigned>(args.half.kv_heads);
        kv_head = head % static_cast<unsigned>(args.half.kv_heads);
        first = static_cast<int>(index % static_cast<unsigned>(args.row_blocks)) * most_rows;
        const int queries = static_cast<int>(args.half.queries);
        rows = min(most_rows, args.group * queries - first);
        const int last = first + rows - 1;
        seen = row_at(args, batch, kv_head, first / queries == last / queries ? last : queries - 1).seen;
    }
};

// A warp's way through its tiles of a part.
template <class T>
class SplitWarp {
public:
    using Number = typename T::Number;

    __device__ SplitWarp(const SplitArgs& args, const SplitUnit& unit) : args_(args), unit_(unit) {
        const Operand& k = args.half.k;
        const Operand& v = args.half.v;
        keys_ = static_cast<const uint16_t*>(k.at) + unit.batch * k.batch + unit.kv_head * k.head;
        values_ = static_cast<const uint16_t*>(v.at) + unit.batch * v.batch + unit.kv_head * v.head;
#pragma unroll
        for (int i = 0; i < 2 * T::kRowTiles; ++i) load_query(i / 2, i % 2);
    }

    // The part's keys from `begin` to before `end`, through the warp's ring.
    __device__ void run(typename T::Stage (&ring)[T::kStages], int begin, int end) {
#pragma unroll
        for (int tile = 0; tile < T::kRowTiles; ++tile) {
            rows[tile] = RunningRows();
#pragma unroll
            for (int i = 0; i < T::kDim / 2; ++i) o[tile][i] = 0;
        }
        constexpr int kStep = kWarps * T::kKeys;
        const int first = begin + static_cast<int>(threadIdx.x / kWarpSize) * T::kKeys;
#pragma unroll
        for (int stage = 0; stage < T::kStages; ++stage) copy(ring[stage], first + stage * kStep, end);
        int stage = 0;
        for (int key = first; key < end; key += kStep) {
            wait_for_copies<T::kStages - 1>();
            __syncwarp(); // the other lanes' copies too
            compute(ring[stage], key);
            __syncwarp(); // all lanes have done with the tile
            copy(ring[stage], key + T::kStages * kStep, end);
            stage = stage + 1 == T::kStages ? 0 : stage + 1;
        }
        finish_copies();
    }

    RunningRows rows[T::kRowTiles];
    float o[T::kRowTiles][T::kDim / 2];

private:
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % kWarpSize); }

    // A lane's words of a query row, as the left operand of mma.sync, and how many keys it sees from the lane's first
    // column on.
    __device__ __forceinline__ void load_query(int tile, int half) {
        const int row = tile * 16 + half * 8 + lane() / 4;
        const bool exists = row < unit_.rows;
        const SplitRow at = row_at(args_, unit_.batch, unit_.kv_head, unit_.first + (exists ? row : 0));
        seen_[tile][half] = exists ? at.seen - lane() % 4 * 2 : 0;
        const Operand& q = args_.half.q;
        const uint16_t* const from =
            static_cast<const uint16_t*>(q.at) + at.batch * q.batch + at.head * q.head + at.query * q.row;
#pragma unroll
        for (int column = 0; column < T::kDim; column += 8) {
            const bool there = exists && column < args_.half.dim;
            q_[tile][column / 16][column / 8 % 2 * 2 + half] =
                there ? *reinterpret_cast<const uint32_t*>(from + column + lane() % 4 * 2) : 0u;
        }
    }

    // A tile from `first` on; keys from `end` on are zeros.
    __device__ __forceinline__ void copy(typename T::Stage& to, int first, int end) const {
        constexpr int kPieces = T::kDim / 8;
        constexpr int kTogether = kWarpSize / kPieces; // rows
        const int column = lane() % kPieces * 8;
        if (first < end) {
#pragma unroll
            for (int i = 0; i < T::kKeys; i += kTogether) {
                const int row = i + lane() / kPieces;
                const int64_t key = first + row;
                const bool there = key < end && column < args_.half.dim;
                copy_async<16>(&to.keys[row][column], keys_ + key * args_.half.k.row + column, there);
                copy_async<16>(&to.values[row][column], values_ + key * args_.half.v.row + column, there);
            }
        }
        end_group_of_copies();
    }

    __device__ __forceinline__ void compute(const typename T::Stage& stage, int first) {
        float s[T::kRowTiles][T::kKeys / 2];
#pragma unroll
        for (int tile = 0; tile < T::kRowTiles; ++tile)
#pragma unroll
            for (int i = 0; i < T::kKeys / 2; ++i) s[tile][i] = 0;
#pragma unroll
        for (int column = 0; column < T::kDim; column += 16)
#pragma unroll
            for (int key = 0; key < T::kKeys; key += 16) {
                uint32_t b[4];
                load_matrices<false>(b, &stage.keys[key + lane() % 8 + lane() / 16 * 8][column + lane() / 8 % 2 * 8]);
#pragma unroll
                for (int tile = 0; tile < T::kRowTiles; ++tile) {
                    Number::multiply(s[tile] + key / 2, q_[tile][column / 16], b[0], b[1]);
                    Number::multiply(s[tile] + key / 2 + 4, q_[tile][column / 16], b[2], b[3]);
                }
            }
        uint32_t p[T::kRowTiles][T::kKeys / 16][4];
#pragma unroll
        for (int tile = 0; tile < T::kRowTiles; ++tile) {
            hide_unseen(s[tile], seen_[tile][0] - first, seen_[tile][1] - first);
            float factor[2];
            const bool raised = rows[tile].weigh(s[tile], args_.half.log2_scale, factor);
            if (__any_sync(kAllLanes, raised)) multiply_rows(o[tile], factor);
            pack_weights<Number>(p[tile], s[tile]);
        }
#pragma unroll
        for (int key = 0; key < T::kKeys; key += 16)
#pragma unroll
            for (int column = 0; column < T::kDim; column += 16) {
                uint32_t b[4];
                load_matrices<true>(b, &stage.values[key + lane() % 16][column + lane() / 16 * 8]);
#pragma unroll
                for (int tile = 0; tile < T::kRowTiles; ++tile) {
                    Number::multiply(o[tile] + column / 2, p[tile][key / 16], b[0], b[1]);
                    Number::multiply(o[tile] + column / 2 + 4, p[tile][key / 16], b[2], b[3]);
                }
            }
    }

    const SplitArgs& args_;
    const SplitUnit& unit_;
    const uint16_t* keys_;
    const uint16_t* values_;
    uint32_t q_[T::kRowTiles][T::kDim / 16][4];
    int seen_[T::kRowTiles][2];
};

// What a warp has for the part, for all threads.
template <class T>
__device__ __forceinline__ void leave(typename T::Merge& merge, SplitWarp<T>& mine, int rows) {
    const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
#pragma unroll
    for (int tile = 0; tile < T::kRowTiles; ++tile) {
        float inverse[2];
        mine.rows[tile].end(inverse);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = tile * 16 + half * 8 + lane / 4;
            if (row >= rows) continue;
            merge.top[warp][row] = mine.rows[tile].top[half]; // four lanes write the same
            merge.sum[warp][row] = mine.rows[tile].sum[half];
#pragma unroll
            for (int i = 2 * half; i < T::kDim / 2; i += 4)
                *reinterpret_cast<float2*>(&merge.sums[warp][row][i / 4 * 8 + lane % 4 * 2]) =
                    make_float2(mine.o[tile][i], mine.o[tile][i + 1]);
        }
    }
}

// All warps' sums of the part: the row's output where it sees one part, partial sums where it sees more.
template <class T>
__device__ __forceinline__ void merge_warps(const SplitArgs& args, const SplitUnit& unit, int part,
                                            const typename T::Merge& merge) {
    constexpr int kPieces = T::kDim / 4;
    for (int i = static_cast<int>(threadIdx.x); i < unit.rows * kPieces; i += kMmaThreads) {
        const int row = i / kPieces;
        const int column = i % kPieces * 4;
        const SplitRow place = row_at(args, unit.batch, unit.kv_head, unit.first + row);
        const int parts = parts_of(place.seen);
        if (part > 0 && part >= parts) continue;
        float top = merge.top[0][row];
#pragma unroll
        for (int warp = 1; warp < kWarps; ++warp) top = fmaxf(top, merge.top[warp][row]);
        float4 o = make_float4(0, 0, 0, 0);
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) {
            const float factor = factor_of(merge.top[warp][row], top, args.half.log2_scale);
            sum = __fmaf_rn(merge.sum[warp][row], factor, sum);
            add_times(o, *reinterpret_cast<const float4*>(&merge.sums[warp][row][column]), factor);
        }
        if (parts <= 1) {
            store_output<typename T::Number>(args, place, column, o, top, sum);
            continue;
        }
        const int64_t at =
            ((place.batch * args.half.heads + place.head) * args.half.queries + place.query) * args.parts + part;
        *reinterpret_cast<float4*>(args.sums + at * T::kDim + column) = o;
        if (column == 0) args.tops[at] = make_float2(top, sum);
    }
}

template <class T>
__global__ void __launch_bounds__(kMmaThreads, T::kBlocks) split_kernel(const __grid_constant__ SplitArgs args) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char split_memory[];
    auto& memory = *reinterpret_cast<typename T::Memory*>(split_memory);
    const SplitUnit unit(args, blockIdx.x % args.units, T::kRows);
    const int parts = max(parts_of(unit.seen), 1); // the first part writes the output of rows that see no key
    int part = args.slots - 1 - static_cast<int>(blockIdx.x / args.units);
    if (part >= parts) return;
    SplitWarp<T> warp(args, unit);
    for (; part < parts; part += args.slots) {
        warp.run(memory.stages[threadIdx.x / kWarpSize], first_key_of(part), min(first_key_of(part + 1), unit.seen));
        __syncthreads(); // all warps have done with their rings
        leave<T>(memory.merge, warp, unit.rows);
        __syncthreads();
        merge_warps<T>(args, unit, part, memory.merge);
        __syncthreads();
    }
#else
    __trap();
#endif
}

// Adds the parts of a row that sees several, a block for each row: a warp every fourth part, then the four warps.
template <class Number, int kDim>
__global__ void __launch_bounds__(kMmaThreads) split_fold_kernel(const __grid_constant__ SplitArgs args) {
#if __CUDA_ARCH__ >= 800
    __shared__ __align__(16) float sums[kWarps][kDim];
    __shared__ float weights[kWarps];
    const Args& half = args.half;
    const int64_t head_rows = args.group * half.queries;
    const int64_t kv_head = blockIdx.x / head_rows;
    const SplitRow row =
        row_at(args, kv_head / half.kv_heads, kv_head % half.kv_heads, static_cast<int>(blockIdx.x % head_rows));
    const int parts = parts_of(row.seen);
    if (parts <= 1) return;
    const int64_t first = int64_t{blockIdx.x} * args.parts;
    const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    float top = minus_infinity();
    for (int part = lane; part < parts; part += kWarpSize) top = fmaxf(top, args.tops[first + part].x);
    top = warp_max(top);
    for (int column = lane * 4; column < (kDim < 128 ? 128 : kDim); column += 128) {
        float4 o = make_float4(0, 0, 0, 0);
        float sum = 0;
#pragma unroll 4
        for (int part = warp; part < parts; part += kWarps) {
            const float2 of_part = args.tops[first + part];
            const float factor = factor_of(of_part.x, top, half.log2_scale);
            sum = __fmaf_rn(of_part.y, factor, sum);
            if (column < kDim)
                add_times(o, *reinterpret_cast<const float4*>(args.sums + (first + part) * kDim + column), factor);
        }
        if (column < kDim) *reinterpret_cast<float4*>(&sums[warp][column]) = o;
        if (lane == 0) weights[warp] = sum;
    }
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x) * 4;
    if (column >= kDim) return;
    float4 o = make_float4(0, 0, 0, 0);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
        sum = __fadd_rn(sum, weights[i]);
        add_times(o, *reinterpret_cast<const float4*>(&sums[i][column]), 1);
    }
    store_output<Number>(args, row, column, o, top, sum);
#else
    __trap();
#endif
}

template <class Number, class Work>
auto with_rows(int64_t dim, int64_t rows, const Work& work) {
    if (dim > 128) return work(SplitTile<Number, 256, 1>());
    if (dim > 64) return rows > 16 ? work(SplitTile<Number, 128, 2>()) : work(SplitTile<Number, 128, 1>());
    return rows > 16 ? work(SplitTile<Number, 64, 2>()) : work(SplitTile<Number, 64, 1>());
}

template <class Work>
auto with_tile(const Problem& problem, const Work& work) {
    const int64_t rows = problem.heads / problem.kv_heads * problem.queries;
    return problem.element == Element::bf16 ? with_rows<Bf16>(problem.dim, rows, work)
                                            : with_rows<Fp16>(problem.dim, rows, work);
}

template <class T>
void launch_tile(SplitArgs args, cudaStream_t stream) {
    const Args& half = args.half;
    const int64_t rows = half.units() * half.queries;
    args.tops = reinterpret_cast<float2*>(args.sums + rows * args.parts * T::kDim);
    args.row_blocks = static_cast<int>((args.group * half.queries + T::kRows - 1) / T::kRows);
    const int64_t units = half.batches * half.kv_heads * args.row_blocks;
    args.units = static_cast<unsigned>(units);
    // Blocks of parts that a sequence does not have end at once, but they take time when they are many.
    constexpr int64_t kMostBlocks = 16384;
    args.slots = static_cast<int>(std::clamp<int64_t>(kMostBlocks / units, 1, args.parts));
    constexpr size_t kBytes = sizeof(typename T::Memory);
    const auto kernel = split_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    kernel<<<args.units* static_cast<unsigned>(args.slots), kMmaThreads, kBytes, stream>>>(args);
    HW4_CUDA_LAUNCHED("split_kernel");
    if (args.parts == 1) return;
    split_fold_kernel<typename T::Number, T::kDim><<<static_cast<unsigned>(rows), kMmaThreads, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("split_fold_kernel");
}

SplitArgs split_args(const Launch& launch) {
    SplitArgs args{};
    args.half = args_of(launch);
    args.lengths = launch.lengths;
    args.sums = static_cast<float*>(launch.scratch);
    args.group = static_cast<int>(args.half.heads / args.half.kv_heads);
    args.parts = parts_of(static_cast<int>(args.half.keys));
    return args;
}

} // namespace

void launch_split(const Launch& launch, cudaStream_t stream) {
    with_tile(launch.problem, [&](auto tile) { launch_tile<decltype(tile)>(split_args(launch), stream); });
}

Plan plan_split(const Problem& problem) {
    return with_tile(problem, [&](auto tile) {
        using T = decltype(tile);
        Plan plan;
        const int64_t rows = problem.units() * problem.queries;
        constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
        plan.why_not = why_too_long(problem);
        if (plan.why_not.empty() && rows > kMostBlocks)
            plan.why_not =
                "takes up to " + std::to_string(kMostBlocks) + " query rows, this case has " + std::to_string(rows);
        plan.shared_bytes = sizeof(typename T::Memory);
        const int64_t parts = plan.why_not.empty() ? parts_of(static_cast<int>(problem.keys)) : 0;
        if (parts > 1)
            plan.scratch_bytes = static_cast<size_t>(rows * parts) * (T::kDim * sizeof(float) + sizeof(float2));
        return plan;
    });
}

} // namespace hw4::gpu::half_forward
