#include "src/gpu/f32/backward/round_args.h"

#include <algorithm>

#include "src/gpu/device/check.h"
#include "src/gpu/f32/backward/sum_tiles.cuh"

namespace hw4::gpu {
namespace {

constexpr int kJoinThreads = 256;
constexpr int kGroupStages = kGroupRows / kStageRows;

// A number of dQ: the sum of its groups of keys, the last first. Groups that no row of the block sees do not exist.
__device__ void join_dq(const RoundArgs& args, uint32_t unit, int row, int column) {
    const int groups = args.key_groups();
    const int seen = args.seen_by_rows(row / kSumRows * kSumRows, kSumRows);
    const int there = (seen + kGroupRows - 1) / kGroupRows;
    float total = 0.0f;
    for (int group = there - 1; group >= 0; --group)
        total +=
            args.dq_parts[((static_cast<size_t>(unit) * groups + group) * args.rows + row) * args.part_row + column];
    const Heads<float>& heads = args.all.forward.out;
    heads.of(args.unit(unit))[static_cast<size_t>(args.first_row + row) * heads.row + column] =
        scaled_gradient(total, args.all.scale);
}

// A number of dK or dV of a head of keys: for each head of queries in the round its groups of rows, then the heads.
struct KeySum {
    const float* parts;
    float* running; // for a head of queries with rows in several rounds
    const Heads<float>& heads;
    bool scaled;
};

__device__ void join_key(const RoundArgs& args, const RunningTotals& totals, const KeySum& of, uint32_t kv_unit,
                         int key, int column) {
    const ForwardArgs& forward = args.all.forward;
    const uint32_t group_heads = forward.units / forward.kv_units();
    const uint32_t first_head = kv_unit * group_heads;
    const uint32_t end_head = first_head + group_heads;
    const uint32_t end_unit = args.first_unit + args.units;
    float& out = of.heads.of(kv_unit)[static_cast<size_t>(key) * of.heads.row + column];
    float* const running = of.running + static_cast<size_t>(key) * args.part_row + column;
    const int first_stage = args.first_seeing(key / kSumRows * kSumRows) / kStageRows;
    const int stages = (args.rows + kStageRows - 1) / kStageRows;
    float sum = first_head < args.first_unit ? out : 0.0f; // of the heads in earlier rounds
    for (uint32_t unit = max(first_head, args.first_unit); unit < min(end_head, end_unit); ++unit) {
        float total = totals.unit_begins ? 0.0f : *running;
        for (int group = 0; group < args.row_groups(); ++group) {
            if (first_stage >= min(stages, (group + 1) * kGroupStages)) continue; // no row in the group sees the key
            const size_t place = static_cast<size_t>(unit - args.first_unit) * args.row_groups() + group;
            total += of.parts[(place * args.keys() + key) * args.part_row + column];
        }
        if (totals.unit_ends)
            sum += total;
        else
            *running = total;
    }
    if (end_head <= end_unit && totals.unit_ends)
        out = of.scaled ? scaled_gradient(sum, args.all.scale) : value_gradient(sum);
    else
        out = sum;
}

__global__ __launch_bounds__(kJoinThreads) void join_kernel(const __grid_constant__ RoundArgs args,
                                                            const __grid_constant__ RunningTotals totals) {
    const ForwardArgs& forward = args.all.forward;
    const uint32_t first_head = forward.kv_unit(args.first_unit);
    const uint32_t heads = forward.kv_unit(args.first_unit + args.units - 1) - first_head + 1;
    const int64_t of_queries = args.all.gives_dq() ? int64_t{args.units} * args.rows : 0;
    const int64_t of_keys = args.all.gives_dk_dv() ? int64_t{heads} * args.keys() : 0;
    const int64_t numbers = (of_queries + 2 * of_keys) * forward.dim;
    const int64_t step = int64_t{gridDim.x} * kJoinThreads;
    for (int64_t index = int64_t{blockIdx.x} * kJoinThreads + threadIdx.x; index < numbers; index += step) {
        const auto column = static_cast<int>(index % forward.dim);
        int64_t row = index / forward.dim;
        if (row < of_queries) {
            join_dq(args, static_cast<uint32_t>(row / args.rows), static_cast<int>(row % args.rows), column);
            continue;
        }
        row -= of_queries;
        const bool of_dk = row < of_keys;
        if (!of_dk) row -= of_keys;
        const KeySum of{of_dk ? args.dk_parts : args.dv_parts, of_dk ? totals.dk : totals.dv,
                        of_dk ? args.all.dk : args.all.dv, of_dk};
        join_key(args, totals, of, first_head + static_cast<uint32_t>(row / args.keys()),
                 static_cast<int>(row % args.keys()), column);
    }
}

} // namespace

void join_sums(const RoundArgs& args, const RunningTotals& totals, cudaStream_t stream) {
    constexpr int64_t kMostBlocks = 4096;
    const int64_t rows = int64_t{args.units} * (args.rows + 2 * args.all.forward.keys);
    const int64_t blocks = (rows * args.all.forward.dim + kJoinThreads - 1) / kJoinThreads;
    join_kernel<<<static_cast<unsigned>(std::min(blocks, kMostBlocks)), kJoinThreads, 0, stream>>>(args, totals);
    HW4_CUDA_LAUNCHED("join_sums");
}

} // namespace hw4::gpu
