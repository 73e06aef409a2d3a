// plain_rows: the baseline, straight from global memory.
//
// Idea      None yet: the contract's loops, a warp for each query row.
// Work      Lane = key of a tile of 32 for the scores, lane = column (one in each chunk of 32) for the output.
// Memory    No shared memory. Each lane reads its own key row, so the 32 loads of a step touch 32 cache lines.
// Order     The contract's, unchanged.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/common.cuh"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {
namespace {

constexpr int kRowWarps = 4;
constexpr int kRowChunks = 8; // columns of the output in chunks of 32: d <= 256

// For the scores lane = key of the tile, for the output lane = column of each chunk. All lanes of a warp call it.
__device__ void attend_row(const ForwardArgs& args, uint32_t unit, int64_t row) {
    const int lane = threadIdx.x % kWarpSize;
    const UnitMatrices m = matrices_of(args, unit);
    const float* q = m.q + static_cast<size_t>(row) * args.q.row;
    Reference reference = empty_reference();
    Reference total_reference = empty_reference();
    float lane_sum = 0.0f; // lane g of the contract's eight, in lanes g, g + 8, ...
    float o[kRowChunks] = {};
    float total[kRowChunks] = {};

    const int64_t seen = args.sight.of(row);
    const int64_t from = args.sight.from(row); // the first key that the row sees
    int64_t first_key = from / kKeyTile * kKeyTile;
    const float* v = m.v + static_cast<size_t>(first_key) * args.v.row + lane; // of the next key
    for (; first_key < seen; first_key += kKeyTile) {
        const int keys = static_cast<int>(seen - first_key < kKeyTile ? seen - first_key : int64_t{kKeyTile});
        const bool sees = first_key + lane >= from && lane < keys;
        float s = 0.0f;
        if (sees) {
            const float* k = m.k + static_cast<size_t>(first_key + lane) * args.k.row;
            for (int first = 0; first < args.dim; first += kScoreColumns) {
                float block = 0.0f;
                for (int t = first; t < min(first + kScoreColumns, args.dim); ++t) block = fused(q[t], k[t], block);
                s += block;
            }
        }
        const float tile_max = warp_max(sees ? s : -HUGE_VALF);
        if (!reference.covers(tile_max)) {
            const Reference raised = reference_at(tile_max, args.scale);
            const float alpha = rescale_factor(reference, raised, args.scale);
            lane_sum *= alpha;
#pragma unroll
            for (int chunk = 0; chunk < kRowChunks; ++chunk) o[chunk] *= alpha;
            reference = raised;
        }
        const float p = sees ? reference.weight(s, args.scale) : 0.0f;
        float lane_p[kLaneKeys];
#pragma unroll
        for (int i = 0; i < kLaneKeys; ++i) lane_p[i] = __shfl_sync(kAllLanes, p, lane % kSumLanes * kLaneKeys + i);
        lane_sum += lane_share(lane_p);
        for (int j = 0; j < keys; ++j) {
            const float p_j = __shfl_sync(kAllLanes, p, j);
#pragma unroll
            for (int chunk = 0; chunk < kRowChunks; ++chunk)
                if (chunk * kWarpSize + lane < args.dim) o[chunk] = fused(p_j, v[chunk * kWarpSize], o[chunk]);
            v += args.v.row;
        }
        const int64_t next_key = first_key + kKeyTile;
        if (next_key % kSegmentKeys == 0 || next_key >= seen) {
            const float alpha = rescale_factor(total_reference, reference, args.scale);
#pragma unroll
            for (int chunk = 0; chunk < kRowChunks; ++chunk) {
                total[chunk] = fused(total[chunk], alpha, o[chunk]);
                o[chunk] = 0.0f;
            }
            total_reference = reference;
        }
    }

    const float l = closed_lanes(lane_sum);
    if (lane == 0) args.store_statistics(unit, row, {reference.M, reference.origin, l});
    float* out = m.out + static_cast<size_t>(row) * args.out.row;
#pragma unroll
    for (int chunk = 0; chunk < kRowChunks; ++chunk)
        if (chunk * kWarpSize + lane < args.dim)
            out[chunk * kWarpSize + lane] = seen > 0 ? result(total[chunk], 1.0f / l) : 0.0f;
}

__global__ __launch_bounds__(kRowWarps* kWarpSize) void plain_rows(const __grid_constant__ ForwardArgs args) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / kWarpSize;
    if (row < args.units * args.queries)
        attend_row(args, static_cast<uint32_t>(row / args.queries), row % args.queries);
}

} // namespace

Plan plan_rows(const Problem&, const Device&) {
    Plan plan;
    plan.shared_bytes = 48 << 10; // every GPU allows a block this much
    return plan;
}

void launch_plain_rows(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    const int64_t blocks = (args.units * args.queries + kRowWarps - 1) / kRowWarps;
    plain_rows<<<static_cast<unsigned>(blocks), kRowWarps * kWarpSize, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("plain_rows");
}

} // namespace hw4::gpu
