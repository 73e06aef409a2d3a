// split_bf16, split_fp16: few query rows against many keys, as in decoding, on tensor cores of any GPU from 8.0 on.
//
// Idea      Memory sets the speed: K and V are read once for all query rows that share them, and the keys of a sequence
//           are split into parts (split_parts.h) for all blocks of the GPU. A second launch adds the parts.
// Work      A block of four warps for a part of the keys of up to 16 or 32 rows. A warp takes every fourth tile, copies
//           it itself and waits for no other warp; the four are added up in shared memory at the end.
// Memory    Each warp has a ring of tiles of K and V, which may be in pages of 16 keys or more. Partial sums of O are
//           float32 in scratch memory, only for rows that exist and that see more than one part; other rows are
//           written at once. The L2 cache keeps partial sums longest and evicts K and V first: 20 MB of partial sums
//           written to memory between 2 GB of reads took 4 % of the time. The fold discards them, unless there are
//           many parts, where that takes longer.
// Overlap   Two tiles of each of a multiprocessor's eight warps are being copied while a third is computed. For
//           d > 128, one tile of each of four warps. The longest parts start first, so that blocks end together.
// Order     Tiles of a warp, warps of a part and parts of a sequence are added up by their positions alone.
// Limits    More than 32 rows (d > 128: 16) that share keys read them again, from the L2 cache. If a block may have
//           less than 102 to 132 KiB of shared memory, rings are a stage shorter: for d > 128, no copy runs ahead.
// No help   Rows copied by the copy engine, a copy each: 0.0 % if the GPU is full, and a third to twice as long
//           if it is not or d is 64. Three blocks of two stages -11 %, one block of six stages -11 %, for few blocks
//           -1 %. Two blocks per multiprocessor that take parts by turns, with copies that run ahead into the next
//           part: -2 to -20 %. The same within a block of several parts: -1 %.
//           Blocks unit by unit instead of the longest parts first: -1 to -13 %.
#include <algorithm>

#include "src/gpu/common/handover.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/half/forward/split_part.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_forward {
namespace {

// Queries of a head at a time. More would need more scratch memory, and this many already fill any GPU.
constexpr int64_t kMostQueries = 128;

// The factor of a part's sums if another part has a larger top.
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

// Stores four columns of a finished row, and with the first column its statistics.
template <class Number>
__device__ __forceinline__ void store_output(const SplitArgs& args, const SplitRow& row, int column, const float4& o,
                                             float top, float sum) {
    const Args& half = args.half;
    const float inverse = sum == 0.0f ? 0.0f : __frcp_rn(sum);
    const auto word = [&](float low, float high) { // a sum of -0 becomes +0, as it does when parts are added
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

// Stores of partial sums: the L2 cache keeps them until the fold.
__device__ __forceinline__ void store_partial(float* to, const float4& x) {
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "f"(x.x), "f"(x.y), "f"(x.z),
                 "f"(x.w), "l"(cache_policy(Evict::last))
                 : "memory");
}
__device__ __forceinline__ void store_partial(float2* to, const float2& x) {
    asm volatile("st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, %3;" ::"l"(to), "f"(x.x), "f"(x.y),
                 "l"(cache_policy(Evict::last))
                 : "memory");
}

// The 128 bytes from where the lane has loaded need not be written to the GPU's memory.
__device__ __forceinline__ void discard(const float* from, const float4& loaded) {
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(from), "f"(loaded.x) : "memory");
}

// Stores a warp's sums of the part for all threads.
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
            if (lane % 4 == 0) {
                merge.top[warp][row] = mine.rows[tile].top[half];
                merge.sum[warp][row] = mine.rows[tile].sum[half];
            }
#pragma unroll
            for (int i = 2 * half; i < T::kDim / 2; i += 4)
                *reinterpret_cast<float2*>(&merge.sums[warp][row][i / 4 * 8 + lane % 4 * 2]) =
                    make_float2(mine.o[tile][i], mine.o[tile][i + 1]);
        }
    }
}

// Adds all warps' sums of the part: stores the row's output if it sees one part, else partial sums.
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
        for (int warp = 1; warp < kSplitWarps; ++warp) top = fmaxf(top, merge.top[warp][row]);
        float4 o = make_float4(0, 0, 0, 0);
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < kSplitWarps; ++warp) {
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
        store_partial(args.sums + at * T::kDim + column, o);
        if (column == 0) store_partial(args.tops + at, make_float2(top, sum));
    }
}

template <class T>
__global__ void __launch_bounds__(kMmaThreads, T::kBlocks) split_kernel(const __grid_constant__ SplitArgs args) {
#if __CUDA_ARCH__ >= 800
    let_next_kernel_start();
    extern __shared__ __align__(128) unsigned char split_memory[];
    auto& memory = *reinterpret_cast<typename T::Memory*>(split_memory);
    const SplitUnit unit(args, blockIdx.x % args.units, T::kRows);
    const int parts = max(parts_of(unit.seen), 1); // the first part writes the output of rows that see no key
    // A unit's longest parts come first; blocks for parts that a short sequence lacks are at the end of the grid.
    int part = parts - 1 - static_cast<int>(blockIdx.x / args.units);
    if (part < 0) return;
    SplitWarp<T> warp(args, unit);
    auto& ring = memory.stages[threadIdx.x / kWarpSize];
    for (bool first = true; part >= 0; part -= args.slots, first = false) {
        const int begin = first_key_of(part);
        const int end = min(first_key_of(part + 1), unit.seen);
        warp.begin_copies(ring, begin, end);
        if (first) warp.load_queries();
        warp.run(ring, begin, end);
        __syncthreads(); // all warps are done with their rings
        leave<T>(memory.merge, warp, unit.rows);
        __syncthreads();
        merge_warps<T>(args, unit, part, memory.merge);
        __syncthreads();
    }
#else
    __trap();
#endif
}

// Sums of parts relative to the largest top of all.
struct FoldedSums {
    float4 o = {0, 0, 0, 0};
    float sum = 0;

    __device__ __forceinline__ void add(const float4& x, float of_x, float factor) {
        sum = __fmaf_rn(of_x, factor, sum);
        add_times(o, x, factor);
    }
};

// Adds the parts of a row that sees several: every 16th part from each of the first 16 on, then these 16 sums. A row
// has a warp where there are few parts, or else 16, one for each sum.
constexpr int kFoldSums = 16;

template <class Number, int kDim, int kRowWarps>
__global__ void __launch_bounds__(kRowWarps == 1 ? kMmaThreads : kFoldSums * kWarpSize)
    split_fold_kernel(const __grid_constant__ SplitArgs args) {
#if __CUDA_ARCH__ >= 800
    __shared__ __align__(16) float4 sums[kRowWarps][kDim / 4];
    __shared__ float weights[kRowWarps];
    const Args& half = args.half;
    const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
    const unsigned index = (blockIdx.x * blockDim.x + threadIdx.x) / (kRowWarps * kWarpSize); // of the row
    const auto warp = static_cast<int>(threadIdx.x / kWarpSize % kRowWarps);
    const auto head_rows = static_cast<unsigned>(args.group * half.queries);
    const auto kv_heads = static_cast<unsigned>(half.kv_heads);
    const unsigned kv_head = index / head_rows;
    wait_for_kernel_before();
    if (kv_head >= half.batches * half.kv_heads) return;
    const SplitRow row = row_at(args, kv_head / kv_heads, kv_head % kv_heads, static_cast<int>(index % head_rows));
    const int parts = parts_of(row.seen);
    if (parts <= 1) return;
    const int64_t first = int64_t{index} * args.parts;
    constexpr int kAhead = kRowWarps == 1 ? kFoldSums : 8; // parts whose loads are in flight together
    const bool discards = lane % 8 == 0 && reinterpret_cast<uintptr_t>(args.sums) % 128 == 0;
    float top = minus_infinity();
    for (int column = lane * 4; column < (kDim < 128 ? 128 : kDim); column += 128) {
        FoldedSums all;
        const float* const from = args.sums + first * kDim + (column < kDim ? column : 0);
        for (int begin = warp; begin < parts; begin += kRowWarps * kAhead) {
            float4 o[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; ++i)
                if (const int part = begin + i * kRowWarps; part < parts)
                    o[i] = *reinterpret_cast<const float4*>(from + part * kDim);
            const float2 own = args.tops[first + min(begin + lane % kAhead * kRowWarps, parts - 1)];
            if (begin == warp && column < 128) { // after the other loads have started
#pragma unroll 4
                for (int part = lane; part < parts; part += kWarpSize) top = fmaxf(top, args.tops[first + part].x);
                top = warp_max(top);
            }
            const float factor = factor_of(own.x, top, half.log2_scale);
            __syncwarp(); // all lanes have loaded
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const float sum = __shfl_sync(kAllLanes, own.y, i);
                const float times = __shfl_sync(kAllLanes, factor, i);
                const int part = begin + i * kRowWarps;
                if (part >= parts) continue;
                if (kRowWarps == 1 && discards && column < kDim) discard(from + part * kDim, o[i]);
                FoldedSums one;
                FoldedSums& chain = kRowWarps == 1 ? one : all;
                chain.add(o[i], sum, times);
                if (kRowWarps == 1) all.add(one.o, one.sum, 1);
            }
        }
        if (kRowWarps == 1) {
            if (column < kDim) store_output<Number>(args, row, column, all.o, top, all.sum);
        } else {
            if (column < kDim) sums[warp][column / 4] = all.o;
            if (lane == 0) weights[warp] = all.sum;
        }
    }
    if (kRowWarps == 1) return;
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x) * 4;
    if (column >= kDim) return;
    FoldedSums all;
#pragma unroll
    for (int i = 0; i < kRowWarps; ++i) all.add(sums[i][column / 4], weights[i], 1);
    store_output<Number>(args, row, column, all.o, top, all.sum);
#else
    __trap();
#endif
}

// One stage less if a block may have 99 KiB of shared memory. A row's bytes do not depend on the stages.
template <class Number, int kDim, class Work>
auto with_stages(int64_t rows, const Device& device, const Work& work) {
    using One = SplitTile<Number, kDim, 1>;
    if (device.shared_bytes < sizeof(typename One::Memory))
        return work(SplitTile<Number, kDim, 1, One::kStages - 1, 1>());
    if constexpr (kDim < 256)
        if (rows > One::kRows) return work(SplitTile<Number, kDim, 2>());
    return work(One());
}

template <class Number, class Work>
auto with_dim(int64_t dim, int64_t rows, const Device& device, const Work& work) {
    if (dim > 128) return with_stages<Number, 256>(rows, device, work);
    return dim > 64 ? with_stages<Number, 128>(rows, device, work) : with_stages<Number, 64>(rows, device, work);
}

template <class Work>
auto with_tile(const Problem& problem, const Device& device, const Work& work) {
    const int64_t rows = problem.heads / problem.kv_heads * problem.queries;
    return problem.element == Element::bf16 ? with_dim<Bf16>(problem.dim, rows, device, work)
                                            : with_dim<Fp16>(problem.dim, rows, device, work);
}

template <class T>
void launch_tile(SplitArgs args, cudaStream_t stream) {
    const Args& half = args.half;
    const int64_t rows = half.units() * half.queries;
    args.tops = reinterpret_cast<float2*>(args.sums + rows * args.parts * T::kDim);
    args.row_blocks = static_cast<int>((args.group * half.queries + T::kRows - 1) / T::kRows);
    const int64_t units = half.batches * half.kv_heads * args.row_blocks;
    args.units = static_cast<unsigned>(units);
    // Blocks for parts that a sequence does not have end at once, but take time if there are many.
    constexpr int64_t kMostBlocks = 32768;
    args.slots = static_cast<int>(std::clamp<int64_t>(kMostBlocks / units, 1, args.parts));
    constexpr size_t kBytes = sizeof(typename T::Memory);
    const auto kernel = split_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    kernel<<<args.units* static_cast<unsigned>(args.slots), kMmaThreads, kBytes, stream>>>(args);
    HW4_CUDA_LAUNCHED("split_kernel");
    if (args.parts == 1) return;
    const bool few = args.parts <= kFoldSums;
    const unsigned together = few ? kMmaThreads / kWarpSize : 1; // rows of a block
    const auto fold = few ? split_fold_kernel<typename T::Number, T::kDim, 1>
                          : split_fold_kernel<typename T::Number, T::kDim, kFoldSums>;
    launch_early("launch of split_fold_kernel", fold, (static_cast<unsigned>(rows) + together - 1) / together,
                 few ? kMmaThreads : kFoldSums * kWarpSize, 0, stream, args);
}

SplitArgs split_args(const Launch& launch) {
    SplitArgs args{};
    args.half = args_of(launch);
    args.lengths = launch.lengths;
    args.pages = launch.pages;
    args.page_shift = args.pages.shift();
    args.sums = static_cast<float*>(launch.scratch);
    args.group = static_cast<int>(args.half.heads / args.half.kv_heads);
    args.parts = parts_of(static_cast<int>(args.half.keys));
    return args;
}

} // namespace

void launch_split(const Launch& launch, cudaStream_t stream) {
    const int64_t end = launch.first_query + launch.queries();
    Launch part = launch;
    for (; part.first_query < end; part.first_query += kMostQueries) {
        part.end_query = std::min(part.first_query + kMostQueries, end);
        with_tile(launch.problem, launch.device,
                  [&](auto tile) { launch_tile<decltype(tile)>(split_args(part), stream); });
    }
}

Plan plan_split(const Problem& problem, const Device& device) {
    return with_tile(problem, device, [&](auto tile) {
        using T = decltype(tile);
        Plan plan;
        const int64_t rows = problem.units() * std::min(problem.queries, kMostQueries);
        constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
        plan.why_not = why_too_long(problem);
        if (plan.why_not.empty() && rows > kMostBlocks)
            plan.why_not = "takes up to " + std::to_string(kMostBlocks) + " query rows at a time, this case has " +
                           std::to_string(rows);
        plan.shared_bytes = sizeof(typename T::Memory);
        const int64_t parts = plan.why_not.empty() ? parts_of(static_cast<int>(problem.keys)) : 0;
        if (parts > 1)
            plan.scratch_bytes = static_cast<size_t>(rows * parts) * (T::kDim * sizeof(float) + sizeof(float2));
        return plan;
    });
}

} // namespace hw4::gpu::half_forward
