// The kernels of f32.
#pragma once

#include "src/gpu/launch.h"
#include "src/gpu/plan.h"

namespace hw4::gpu {

// A warp for each query row.
Plan plan_rows(const Problem& problem, const Device& device);
void launch_plain_rows(const Launch& launch, cudaStream_t stream);
void launch_shared_tiles(const Launch& launch, cudaStream_t stream);
void launch_padded_tiles(const Launch& launch, cudaStream_t stream);
void launch_coalesced_tiles(const Launch& launch, cudaStream_t stream);
void launch_unrolled_tiles(const Launch& launch, cudaStream_t stream);
void launch_register_rows(const Launch& launch, cudaStream_t stream);

// Tiles in registers: more columns would need more of them than a thread has.
constexpr int kMostTileColumns = 128;
inline bool has_whole_tiles(const Problem& problem) {
    return problem.dim == 32 || problem.dim == 64 || problem.dim == kMostTileColumns;
}
Plan plan_tiles(const Problem& problem, const Device& device);
Plan plan_whole_tiles(const Problem& problem, const Device& device); // of kernels without code for other d
Plan plan_large_tiles(const Problem& problem, const Device& device); // and without small blocks
void launch_register_tiles(const Launch& launch, cudaStream_t stream);
void launch_async_tiles(const Launch& launch, cudaStream_t stream);
void launch_woven_tiles(const Launch& launch, cudaStream_t stream);
Plan plan_drawn_tiles(const Problem& problem, const Device& device);
void launch_drawn_tiles(const Launch& launch, cudaStream_t stream);

// Few query rows; the keys are split.
Plan plan_split_keys(const Problem& problem, const Device& device);
void launch_split_keys(const Launch& launch, cudaStream_t stream);

// ---- The backward kernels of f32, one file each. They also take parts of backward, which differ only in
// gradient_args(): the kernels' loops do not know about them.

// Pairs are computed where they are needed: for dQ, and again for dK and dV.
Plan plan_plain_gradients(const Problem& problem, const Device& device);
void launch_plain_gradients(const Launch& launch, cudaStream_t stream);
void launch_shared_gradients(const Launch& launch, cudaStream_t stream);

// Pairs are computed once and kept.
Plan plan_kept_pairs(const Problem& problem, const Device& device);
void launch_kept_pairs(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
