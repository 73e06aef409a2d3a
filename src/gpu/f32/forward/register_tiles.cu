// register_tiles: a thread computes a tile of scores and one of outputs in registers.
//
// Idea      With Q, K and the weights TRANSPOSED in shared memory every step is an outer product of two short vectors
//           read as float4: at d = 64 8 x 8 tiles, 64 fma for 4 loads, where register_rows has 5 loads for 4 fma. And
//           there is no running maximum: see tile_kernel.cuh.
// Work      A warp has 32 query rows and all 64 keys of a tile, a thread 8 x 8 scores and 8 rows x 4 (d = 32) or 8
//           columns. d = 128, and small blocks at 64: two warps for the rows, each with half the keys and half the
//           columns, so 8 x 4 scores. Lanes in rows of eight.
// Memory    A block of 128 rows: 74 KiB at d = 32 (3 blocks per multiprocessor), 111 at 64 (2), 181 at 128 (1). From
//           woven_tiles on, where rows are few or memory is little: 64 rows, 75 KiB at 64 and 125 at 128. K comes float
//           by float, 4 rows x 8 columns per warp, into rows 4 banks apart: no conflicts. Weights: see weight_offset.
//           159 to 255 registers, none spilled (sm_90).
// Order     Scores: blocks of 32 columns, ascending. Sums: a thread's keys belong to one sum lane. p*v: keys ascending,
//           a tile is a segment, totals in registers.
// Limits    Nothing overlaps: a block waits for its copies, then computes. d is 32, 64 or 128, as in the next two
//           rungs: drawn_tiles also has code for fewer columns.
#include <algorithm>
#include <limits>

#include "src/gpu/f32/forward/tile_kernel.cuh"

namespace hw4::gpu {

struct RegisterTiles : TileChoices {
    static constexpr bool kAlwaysWhole = true;
    static constexpr bool kAlwaysLarge = true;
    using Lanes = RowsOfLanes;
};

void launch_register_tiles(const Launch& launch, cudaStream_t stream) {
    launch_tiles<RegisterTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("register_tiles");
}

Plan plan_tiles(const Problem& problem, const Device&) {
    constexpr int64_t kMostRows = std::numeric_limits<int>::max() - 1024; // kernels count them in int
    Plan plan;
    const int64_t rows = std::max(problem.queries, problem.keys);
    if (rows > kMostRows)
        plan.why_not = "takes up to " + std::to_string(kMostRows) + " rows, this case has " + std::to_string(rows);
    // The shared memory of the smallest blocks.
    plan.shared_bytes = problem.dim <= 32   ? sizeof(TileMemory<Tiling32<true>>)
                        : problem.dim <= 64 ? sizeof(TileMemory<SmallTiling64<true>>)
                                            : sizeof(TileMemory<SmallTiling128<true>>);
    return plan;
}

Plan plan_whole_tiles(const Problem& problem, const Device& device) {
    Plan plan = plan_tiles(problem, device);
    if (plan.why_not.empty() && !has_whole_tiles(problem))
        plan.why_not = "takes d of 32, 64 and 128, this case has " + std::to_string(problem.dim);
    return plan;
}

Plan plan_large_tiles(const Problem& problem, const Device& device) {
    Plan plan = plan_whole_tiles(problem, device);
    plan.shared_bytes = problem.dim <= 32   ? sizeof(TileMemory<Tiling32<true>>)
                        : problem.dim <= 64 ? sizeof(TileMemory<Tiling64<true>>)
                                            : sizeof(TileMemory<Tiling128<true>>);
    return plan;
}

} // namespace hw4::gpu
