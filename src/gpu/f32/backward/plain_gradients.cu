// plain_gradients: the baseline of backward, straight from global memory.
//
// Idea      None yet: the contract's loops, a warp for each row of dQ, and one for each row of dK and dV.
// Work      Lane = other row of a tile of 32 for the pairs, lane = column (one in each chunk of 32) for the sums.
// Memory    No shared memory. Each lane reads its own row of both operands, so the 32 loads of a step touch 32 cache
//           lines. Every pair is computed twice: once for dQ, and once for dK and dV.
// Order     The contract's, unchanged.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/backward/gradient_args.h"
#include "src/gpu/f32/backward/gradient_rows.cuh"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {
namespace {

constexpr int kGradientWarps = 4;
constexpr int kGradientChunks = 8; // columns in chunks of 32: d <= 256

// Adds the other rows [first, end) of a tile, each with its lane's factor: all lanes of a warp call it.
template <class Sums>
__device__ __forceinline__ void add_tile(Sums& sums, const Factors& factors, const TwoOperands& others, int64_t tile,
                                         const OtherRows& seen, int dim) {
    const int lane = threadIdx.x % kWarpSize;
    const int64_t end = seen.end < tile + kTileRows ? seen.end : tile + kTileRows;
    for (int64_t other = seen.first > tile ? seen.first : tile; other < end; ++other) {
#pragma unroll
        for (int sum = 0; sum < Sums::kSums; ++sum) {
            const float factor = __shfl_sync(kAllLanes, factors.of[sum], static_cast<int>(other - tile));
            const float* const row = others.of(sum, other) + lane;
#pragma unroll
            for (int chunk = 0; chunk < kGradientChunks; ++chunk)
                if (chunk * kChunkColumns + lane < dim)
                    sums.chain[sum][chunk] = fused(factor, row[chunk * kChunkColumns], sums.chain[sum][chunk]);
        }
    }
}

template <class Own>
__device__ void sum_row(const GradientArgs& args, uint32_t unit, int64_t row) {
    const int lane = threadIdx.x % kWarpSize;
    const int dim = args.forward.dim;
    const TwoOperands own = Own::own(args, unit);
    const OtherRows seen = Own::range(args, row, row + 1);
    LaneSums<Own::kSums, kGradientChunks> sums;
    for (uint32_t head = 0; head < Own::heads(args); ++head) {
        const uint32_t other_unit = Own::other_unit(args, unit, head);
        const TwoOperands others = Own::others(args, other_unit);
        for (int64_t taken = 0; taken < seen.segments(); ++taken) {
            const int64_t segment = seen.segment<Own::kDescending>(taken);
            for (int64_t tile = segment; tile < segment + kSegmentRows; tile += kTileRows) {
                Factors factors{};
                if (seen.has(tile + lane))
                    factors = factors_of(args, dot(own.of(0, row), others.of(0, tile + lane), dim),
                                         dot(own.of(1, row), others.of(1, tile + lane), dim),
                                         Own::facts(args, unit, row, other_unit, tile + lane));
                add_tile(sums, factors, others, tile, seen, dim);
            }
            sums.close_segment();
            if (seen.ends_group<Own::kDescending>(taken)) sums.close_group();
        }
        close_head<Own>(sums, args, unit, row, head, lane);
    }
}

template <class Own>
__global__
__launch_bounds__(kGradientWarps* kWarpSize) void plain_gradients(const __grid_constant__ GradientArgs args) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kGradientWarps + threadIdx.x / kWarpSize;
    const int64_t rows = Own::rows(args);
    if (row < Own::units(args) * rows) sum_row<Own>(args, static_cast<uint32_t>(row / rows), row % rows);
}

template <class Own>
void launch_plain(const GradientArgs& args, cudaStream_t stream) {
    const int64_t blocks = (Own::units(args) * Own::rows(args) + kGradientWarps - 1) / kGradientWarps;
    plain_gradients<Own><<<static_cast<unsigned>(blocks), kGradientWarps * kWarpSize, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("plain_gradients");
}

} // namespace

Plan plan_plain_gradients(const Problem& problem, const Device& device) {
    Plan plan;
    plan.shared_bytes = 48 << 10; // every GPU allows a block this much
    plan.scratch_bytes = first_steps_bytes(problem, device);
    return plan;
}

void launch_plain_gradients(const Launch& launch, cudaStream_t stream) {
    const GradientArgs args = gradient_args(launch, take_first_steps(launch, stream));
    if (args.gives_dq()) launch_plain<ForQueries>(args, stream);
    if (args.gives_dk_dv()) launch_plain<ForKeys>(args, stream);
}

} // namespace hw4::gpu
