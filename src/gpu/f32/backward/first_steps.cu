#include "src/gpu/f32/backward/gradient_args.h"

#include <algorithm>

#include "src/gpu/common/warp.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {
namespace {

constexpr int kFactWarps = 4;
constexpr int kRowsOfBlock = kFactWarps * kWarpSize;
constexpr size_t kPartAlignment = 256;

size_t aligned(size_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

static_assert(kGroupRows % kQueryStep == 0, "forward may begin at any group of rows");

Problem forward_of(const Problem& problem) {
    Problem forward = problem.of_operation(kForward);
    forward.first_key = forward.block_keys = 0;
    return forward;
}

// Enough for every forward kernel: for a part of the batches, another kernel may be chosen.
size_t forward_scratch_bytes(const Problem& problem, const Device& device) {
    size_t most = 0;
    const Problem forward = forward_of(problem);
    for (const Kernel& kernel : kernels_of(kF32)) {
        const Plan plan = plan_of(kernel, forward, device);
        if (plan.why_not.empty()) most = std::max(most, plan.scratch_bytes);
    }
    return most;
}

// The parts of the scratch memory, from `base` on.
struct Parts {
    RowFacts* facts;
    RowStatistics* statistics;
    float* out; // O, packed, if no dQ takes its place; else none
    void* of_forward;
    size_t bytes;

    Parts(void* base, const Problem& problem, const Device& device) {
        const int64_t rows = problem.units() * problem.queries;
        bytes = 0;
        const auto take = [&](size_t count) {
            void* const part = static_cast<char*>(base) + bytes;
            bytes += aligned(count);
            return part;
        };
        facts = static_cast<RowFacts*>(take(facts_bytes(problem)));
        statistics = static_cast<RowStatistics*>(take(static_cast<size_t>(rows) * sizeof(RowStatistics)));
        const bool has_dq = AskedGradients(problem).gives_dq;
        out = static_cast<float*>(take(has_dq ? 0 : problem.floats_in(rows) * sizeof(float)));
        of_forward = take(forward_scratch_bytes(problem, device));
    }
};

struct FactArgs {
    Heads<const float> dout; // by unit
    Heads<const float> out;
    const RowStatistics* statistics; // [unit][query]
    int64_t statistics_unit;         // from one unit to the next
    RowFacts* facts;                 // [unit][query]
    int64_t queries;
    int row_blocks; // in a unit
    int dim;
};

// A warp takes 32 rows of a unit, and each lane computes the chain of one row, 32 columns at a time. The columns go
// through shared memory, so that adjacent lanes read adjacent columns.
__global__ __launch_bounds__(kRowsOfBlock) void row_facts(const __grid_constant__ FactArgs args) {
    __shared__ float tiles[kFactWarps][2][kWarpSize][kWarpSize + 1];
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const auto unit = static_cast<uint32_t>(blockIdx.x / args.row_blocks);
    const int64_t first_row = int64_t{blockIdx.x % args.row_blocks} * kRowsOfBlock + warp * kWarpSize;
    const float* const dout = args.dout.of(unit) + lane;
    const float* const out = args.out.of(unit) + lane;
    float D = 0.0f;
    for (int first = 0; first < args.dim; first += kScoreColumns) {
        const auto bring = [&](float(&tile)[kWarpSize][kWarpSize + 1], const float* column, size_t stride) {
#pragma unroll 16
            for (int y = 0; y < kWarpSize; ++y) {
                const bool exists = first + lane < args.dim && first_row + y < args.queries;
                tile[y][lane] = exists ? column[static_cast<size_t>(first_row + y) * stride + first] : 0.0f;
            }
        };
        __syncwarp(); // all lanes have read the previous columns
        bring(tiles[warp][0], dout, args.dout.row);
        bring(tiles[warp][1], out, args.out.row);
        __syncwarp();
        float chain = 0.0f;
#pragma unroll
        for (int t = 0; t < kScoreColumns; ++t) chain = fused(tiles[warp][0][lane][t], tiles[warp][1][lane][t], chain);
        D += chain;
    }
    if (first_row + lane >= args.queries) return;
    const int64_t row = first_row + lane;
    const RowStatistics& told = args.statistics[unit * args.statistics_unit + row];
    args.facts[unit * args.queries + row] = {told.M, told.origin, inverse_of(told), D};
}

} // namespace

size_t facts_bytes(const Problem& problem) {
    return aligned(static_cast<size_t>(problem.units() * problem.queries) * sizeof(RowFacts));
}

size_t first_steps_bytes(const Problem& problem, const Device& device) { return Parts(nullptr, problem, device).bytes; }

const RowFacts* take_first_steps(const Launch& launch, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    const AskedGradients asked(problem);
    const Parts parts(launch.scratch, problem, launch.device);
    const RowStatistics* statistics = launch.statistics;
    Tensor out = launch.forward_out;
    if (out.data == nullptr) {
        Launch forward = launch;
        forward.problem = forward_of(problem);
        forward.first_query = asked.unseeing_rows;
        if (!asked.gives_dq)
            forward.out[0] =
                tensor_at(forward.problem, kForward.outputs, 0, parts.out, static_cast<size_t>(problem.dim));
        forward.statistics = parts.statistics;
        forward.scratch = parts.of_forward;
        forward.scratch_bytes = 0; // the least
        choose_kernel(forward.problem, launch.device, kF32)->launch(forward, stream);
        statistics = parts.statistics;
        out = forward.out[0];
    }
    const auto seeing = [&](const Tensor& tensor) {
        return heads_of<const float>(tensor.from_row(asked.unseeing_rows), problem.heads);
    };
    FactArgs args{};
    args.dout = seeing(launch.in[3]);
    args.out = seeing(out);
    args.statistics = statistics + asked.unseeing_rows;
    args.statistics_unit = problem.queries;
    args.facts = parts.facts;
    args.queries = problem.queries - asked.unseeing_rows;
    args.row_blocks = static_cast<int>((args.queries + kRowsOfBlock - 1) / kRowsOfBlock);
    args.dim = static_cast<int>(problem.dim);
    row_facts<<<static_cast<unsigned>(problem.units() * args.row_blocks), kRowsOfBlock, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("row_facts");
    return parts.facts;
}

} // namespace hw4::gpu
