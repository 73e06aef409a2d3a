#include "src/gpu/f32/backward/first_steps.h"

#include "src/gpu/common/warp.cuh"
#include "src/gpu/device/check.h"

namespace hw4::gpu {
namespace {

constexpr int kWarps = 4;
constexpr size_t kPartAlignment = 256;

size_t aligned(size_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

Problem forward_of(const Problem& problem) {
    Problem forward = problem;
    forward.operation = &kForward;
    return forward;
}

size_t forward_scratch_bytes(const Problem& problem, const Device& device) {
    const Kernel* const forward = choose_kernel(forward_of(problem), device, kF32);
    return forward == nullptr ? 0 : plan_of(*forward, forward_of(problem), device).scratch_bytes;
}

// The parts of the scratch memory, from `base` on.
struct Parts {
    RowFacts* facts;
    RowStatistics* statistics;
    void* of_forward;
    size_t bytes;

    Parts(void* base, const Problem& problem, const Device& device) {
        const auto rows = static_cast<size_t>(problem.units() * problem.queries);
        bytes = 0;
        const auto take = [&](size_t count) {
            void* const part = static_cast<char*>(base) + bytes;
            bytes += aligned(count);
            return part;
        };
        facts = static_cast<RowFacts*>(take(rows * sizeof(RowFacts)));
        statistics = static_cast<RowStatistics*>(take(rows * sizeof(RowStatistics)));
        of_forward = take(forward_scratch_bytes(problem, device));
    }
};

struct FactArgs {
    Heads<const float> dout; // by unit
    Heads<const float> out;
    const RowStatistics* statistics; // [unit][query]
    RowFacts* facts;                 // likewise
    int64_t queries;
    int64_t rows; // of all units
    int dim;
};

// A warp takes 32 rows, and a lane the chain of one, 32 columns after the other; they come by way of shared memory, so
// that neighbouring lanes read neighbouring columns.
__global__ __launch_bounds__(kWarps* kWarpSize) void row_facts(const __grid_constant__ FactArgs args) {
    __shared__ float tiles[kWarps][2][kWarpSize][kWarpSize + 1];
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    auto& dout_tile = tiles[threadIdx.x / kWarpSize][0];
    auto& out_tile = tiles[threadIdx.x / kWarpSize][1];
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps * kWarpSize + threadIdx.x;
    const int64_t there = row < args.rows ? row : args.rows - 1;
    const auto unit = static_cast<uint32_t>(there / args.queries);
    const auto query = static_cast<size_t>(there % args.queries);
    const auto own_dout = reinterpret_cast<uintptr_t>(args.dout.of(unit) + query * args.dout.row);
    const auto own_out = reinterpret_cast<uintptr_t>(args.out.of(unit) + query * args.out.row);
    float D = 0.0f;
    for (int first = 0; first < args.dim; first += kScoreColumns) {
        const bool column_exists = first + lane < args.dim;
        const auto bring = [&](float(&tile)[kWarpSize][kWarpSize + 1], uintptr_t own) {
#pragma unroll 8
            for (int y = 0; y < kWarpSize; ++y) {
                const auto* line = reinterpret_cast<const float*>(__shfl_sync(kAllLanes, own, y));
                tile[y][lane] = column_exists ? line[first + lane] : 0.0f;
            }
        };
        __syncwarp(); // everybody has read the columns before
        bring(dout_tile, own_dout);
        bring(out_tile, own_out);
        __syncwarp();
        float chain = 0.0f;
#pragma unroll
        for (int t = 0; t < kScoreColumns; ++t) chain = fused(dout_tile[lane][t], out_tile[lane][t], chain);
        D += chain;
    }
    if (row >= args.rows) return;
    const RowStatistics& told = args.statistics[row];
    args.facts[row] = {told.M, told.origin, inverse_of(told), D};
}

} // namespace

size_t first_steps_bytes(const Problem& problem, const Device& device) { return Parts(nullptr, problem, device).bytes; }

const RowFacts* take_first_steps(const Launch& launch, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    const Parts parts(launch.scratch, problem, launch.device);
    const RowStatistics* statistics = launch.statistics;
    Matrix<const float> out = launch.forward_out;
    if (out.at == nullptr) {
        Launch forward = launch;
        forward.problem = forward_of(problem);
        forward.statistics = parts.statistics;
        forward.scratch = parts.of_forward;
        choose_kernel(forward.problem, launch.device, kF32)->launch(forward, stream);
        statistics = parts.statistics;
        out = {launch.out[0].at, launch.out[0].row, launch.out[0].head, launch.out[0].batch};
    }
    FactArgs args{};
    args.dout = heads_of(launch.in[3], problem.heads);
    args.out = heads_of(out, problem.heads);
    args.statistics = statistics;
    args.facts = parts.facts;
    args.queries = problem.queries;
    args.rows = problem.units() * problem.queries;
    args.dim = static_cast<int>(problem.dim);
    constexpr int64_t kRows = kWarps * kWarpSize;
    row_facts<<<static_cast<unsigned>((args.rows + kRows - 1) / kRows), kRows, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("row_facts");
    return parts.facts;
}

} // namespace hw4::gpu
