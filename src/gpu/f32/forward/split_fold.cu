// The second part of split_keys: totals of units that are split among blocks, from the sums of their segments. One
// kernel for all elements and sizes: its time is that of a chain of additions.
#include "src/gpu/f32/forward/split_fold.h"

#include "src/gpu/device/check.h"

namespace hw4::gpu::split {
namespace {

constexpr int kFoldCopiers = 128;
constexpr int kFoldThreads = 2 * kWarpSize + kFoldCopiers;

template <class E>
__device__ __forceinline__ void store(const Args& args, const RowPlace& place, int column, float x) {
    E* const out = const_cast<E*>(args.out.template of<E>(place.batch, place.head));
    narrow_to(out[place.query * args.out.row + column], x);
}

// Calls add(load(i)) for all i below `count`, in order. Each addition waits for the one before, so that loads are
// early; some are of an i from 0 to kFoldSegments - 1 that is not below `count`.
template <class Load, class Add>
__device__ __forceinline__ void each_in_order(int count, const Load& load, const Add& add) {
    constexpr int kAhead = 8;
    static_assert(kFoldSegments % kAhead == 0);
    decltype(load(0)) next[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) next[j] = load(j);
    for (int left = count; left > 0; left -= kAhead) {
        const int after = (count - left + kAhead) % kFoldSegments;
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
            const auto x = next[j];
            next[j] = load(after + j);
            if (j < left) add(x);
        }
    }
}

// Block (x, row, chunk): a unit that is split among several blocks; one of its rows, 32 of its columns. If there are no
// more units than blocks of segments_kernel, x is a unit; otherwise x is such a block, and the unit is the one that
// ends in its share and began earlier. Warp 0 has the columns, warp 1 the running sums; the other warps copy.
__global__ void __launch_bounds__(kFoldThreads)
    fold_kernel(const __grid_constant__ Args args, Element element, int64_t blocks) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<FoldMemory*>(block_memory);
    const bool by_units = int64_t{args.batches} * args.units_of_batch() <= blocks;
    const Share share = by_units ? share_of_unit(args, blockIdx.x, blocks) : find_share(args, blockIdx.x, blocks);
    const Shares& shares = share.all;
    const Unit& unit = share.first_unit;
    const int64_t end = unit.first + unit.count;
    if (share.hands_over || (!by_units && (share.first >= share.end || share.first == unit.first || share.end < end)))
        return;
    const auto row = static_cast<int>(blockIdx.y);
    const auto rows = static_cast<int>(gridDim.y);
    const int columns = static_cast<int>(gridDim.z) * kFoldColumns;
    const RowPlace place = place_of(args, unit, row, rows);
    const int64_t first_block = shares.block_of(unit.first);
    const int64_t begin = shares.first(first_block + 1);
    if (!place.exists || begin >= end) return;
    const int64_t block = shares.block_of(end - 1);
    const auto stages = static_cast<int>((end - begin + kFoldSegments - 1) / kFoldSegments);
    const int first_column = static_cast<int>(blockIdx.z) * kFoldColumns;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;

    // 16 threads copy a segment: eight its sums, six its factors.
    constexpr int kSegmentThreads = 16;
    constexpr int kAtOnce = kFoldCopiers / kSegmentThreads;
    constexpr int kSumPieces = kFoldColumns / 4;
    constexpr int kFactorPieces = sizeof(SegmentFactors) / 16;
    static_assert(kSumPieces + kFactorPieces <= kSegmentThreads);
    const int copier = static_cast<int>(threadIdx.x) - 2 * kWarpSize;
    const int piece = copier % kSegmentThreads;
    const bool copies_sums = piece < kSumPieces;
    const int step = rows * (copies_sums ? columns : static_cast<int>(sizeof(SegmentFactors) / sizeof(float)));
    int64_t segment = begin + copier / kSegmentThreads;
    const float* from = segment * step + (copies_sums ? args.scratch.sums + row * columns + first_column + piece * 4
                                                      : reinterpret_cast<const float*>(args.scratch.factors + row) +
                                                            (piece - kSumPieces) * 4);
    const auto copy_stage = [&](int stage) {
        const int place_in_stage = stage % kFoldStages * kFoldSegments + copier / kSegmentThreads;
        float* to = copies_sums
                        ? memory.sums[0][0] + place_in_stage * kFoldColumns + piece * 4
                        : reinterpret_cast<float*>(memory.factors[0] + place_in_stage) + (piece - kSumPieces) * 4;
        const int to_step =
            kAtOnce * static_cast<int>(copies_sums ? kFoldColumns : sizeof(SegmentFactors) / sizeof(float));
#pragma unroll 4
        for (int at = 0; at < kFoldSegments; at += kAtOnce) {
            if (segment < end && piece < kSumPieces + kFactorPieces) copy_async<16>(to, from);
            segment += kAtOnce;
            from += kAtOnce * step;
            to += to_step;
        }
        end_group_of_copies();
    };
    if (copier >= 0)
        for (int stage = 0; stage < kFoldStages - 1; ++stage) copy_stage(stage);

    const RowState& state = args.scratch.states[first_block * rows + row];
    float total = args.scratch.totals[(first_block * rows + row) * columns + first_column + lane];
    float lane_sum = state.lanes[lane % kSumLanes];
    // Otherwise all factors are 1, and sums are added without them, which is faster.
    const bool has_factors = has_changed_later(args, shares, first_block, block + 1);
    for (int stage = 0; stage < stages; ++stage) {
        wait_for_copies<kFoldStages - 2>();
        __syncthreads();
        const auto count = static_cast<int>(min(end - begin - int64_t{stage} * kFoldSegments, int64_t{kFoldSegments}));
        const auto& sums = memory.sums[stage % kFoldStages];
        const auto& factors = memory.factors[stage % kFoldStages];
        if (copier >= 0) {
            copy_stage(stage + kFoldStages - 1);
        } else if (has_factors && warp == 0) {
#pragma unroll 16
            for (int i = 0; i < count; ++i) total = fused(total, factors[i].rescale, sums[i][lane]);
        } else if (has_factors) {
#pragma unroll 8
            for (int i = 0; i < count; ++i)
#pragma unroll
                for (int tile = 0; tile < kTiles; ++tile)
                    lane_sum = lane_sum * factors[i].raised[tile] + factors[i].shares[lane % kSumLanes][tile];
        } else if (warp == 0) {
            each_in_order(
                count, [&](int i) { return sums[i][lane]; }, [&](float x) { total += x; });
        } else {
            each_in_order(
                count, [&](int i) { return *reinterpret_cast<const float2*>(factors[i].shares[lane % kSumLanes]); },
                [&](const float2& x) { lane_sum = (lane_sum + x.x) + x.y; });
        }
    }
    if (warp == 1) {
        float l = lane_sum;
        for (int distance = 1; distance < kSumLanes; distance *= 2) l += __shfl_xor_sync(kAllLanes, l, distance);
        if (lane == 0) {
            memory.inverse = l > 0 ? 1.0f / l : 0.0f;
            const RowState& last = args.scratch.last_states[block * rows + row];
            if (blockIdx.z == 0) store_statistics(args, place, {last.M, last.origin, l});
        }
    }
    __syncthreads();
    if (warp != 0 || first_column + lane >= args.dim) return;
    const float x = result(total, memory.inverse);
    switch (element) {
    case Element::float32: return store<float>(args, place, first_column + lane, x);
    case Element::bf16: return store<Bf16>(args, place, first_column + lane, x);
    case Element::fp16: return store<Fp16>(args, place, first_column + lane, x);
    }
#else
    __trap();
#endif
}

} // namespace

void launch_fold(const Args& args, Element element, int64_t blocks, unsigned folds, int rows, int columns,
                 cudaStream_t stream) {
    HW4_CUDA(cudaFuncSetAttribute(fold_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(FoldMemory)));
    const dim3 grid(folds, static_cast<unsigned>(rows), static_cast<unsigned>(columns / kFoldColumns));
    fold_kernel<<<grid, kFoldThreads, sizeof(FoldMemory), stream>>>(args, element, blocks);
    HW4_CUDA_LAUNCHED("fold_kernel");
}

} // namespace hw4::gpu::split
