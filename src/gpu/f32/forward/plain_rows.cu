// plain_rows: the baseline, straight from global memory.
//
// Idea      None yet: the contract's loops, a warp for each query row.
// Who       Lane = key of a tile of 32 for the scores, lane = column (one in each chunk of 32) for the output.
// Memory    No shared memory. Each lane reads its own key row, so the 32 loads of a step touch 32 cache lines.
// Order     The contract's, see plain_row.cuh.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/f32/forward/plain_row.cuh"

namespace hw4::gpu {
namespace {

constexpr int kWarps = 4;

__global__ __launch_bounds__(kWarps* kWarpSize) void plain_rows(const __grid_constant__ ForwardArgs args) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpSize;
    if (row < args.units * args.queries)
        attend_plain_row(args, static_cast<uint32_t>(row / args.queries), row % args.queries);
}

} // namespace

Plan plan_rows(const Problem&, const Device&) {
    Plan plan;
    plan.shared_bytes = 48 << 10; // at most what every card grants a block
    return plan;
}

void launch_plain_rows(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    const int64_t blocks = (args.units * args.queries + kWarps - 1) / kWarps;
    plain_rows<<<static_cast<unsigned>(blocks), kWarps * kWarpSize, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("plain_rows");
}

} // namespace hw4::gpu
