// plain_rows: the baseline, straight from global memory.
//
// Idea      None yet: the contract's loops, a warp for each query row.
// Who       Lane = key of a tile of 32 for the scores, lane = column (one in each chunk of 32) for the output.
// Memory    No shared memory. Each lane reads its own key row, so the 32 loads of a step touch 32 cache lines.
// Order     The contract's, see plain_row.cuh.
// Measured  H200: t28 340 ms (0.81 TFLOP/s), t29 833 ms (0.66).
#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/f32/forward/plain_row.cuh"

namespace hw4::gpu {
namespace {

constexpr int kWarps = 4;

__global__ __launch_bounds__(kWarps* kWarpSize) void plain_rows(const __grid_constant__ KernelArgs args) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpSize;
    const int64_t queries = queries_of(args);
    if (row < args.batches * queries) attend_plain_row(args, row / queries, args.first_query + row % queries);
}

} // namespace

void launch_plain_rows(const KernelArgs& args, cudaStream_t stream) {
    const int64_t blocks = (args.batches * queries_of(args) + kWarps - 1) / kWarps;
    plain_rows<<<static_cast<unsigned>(blocks), kWarps * kWarpSize, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("plain_rows");
}

} // namespace hw4::gpu
