// The kernels of the contracts `fixed` and `fixed16`.
#pragma once

#include "src/gpu/launch.h"
#include "src/gpu/plan.h"

namespace hw4::gpu {

// mma.sync, any GPU from compute capability 8.0 on.
Plan plan_mma_groups(const Problem& problem, const Device& device);
void launch_mma_groups(const Launch& launch, cudaStream_t stream);

// wgmma, compute capability 9.0 only.
constexpr int kMostWgmmaColumns = 128;
Plan plan_wgmma_groups(const Problem& problem, const Device& device); // also for one group
void launch_wgmma_group(const Launch& launch, cudaStream_t stream);
void launch_wgmma_groups(const Launch& launch, cudaStream_t stream);
Plan plan_wgmma_shares(const Problem& problem, const Device& device);
void launch_wgmma_shares(const Launch& launch, cudaStream_t stream);

// ---- fixed16

// mma.sync, any GPU from compute capability 8.0 on.
Plan plan_mma_pairs(const Problem& problem, const Device& device); // also for table_pairs
void launch_table_pairs(const Launch& launch, cudaStream_t stream);
void launch_mma_pairs(const Launch& launch, cudaStream_t stream);

// wgmma, compute capability 9.0 only, d up to kMostWgmmaColumns.
Plan plan_wgmma_pairs(const Problem& problem, const Device& device);
void launch_wgmma_pairs(const Launch& launch, cudaStream_t stream);
bool launch_pairs_whole(const Launch& launch, cudaStream_t stream); // false: not taken, nothing launched

// ---- Whether the GPU's own instruction gives the powers of 2 of the contract fixed16

// For the GPU in use: compares all weights and tiles' weights that can occur with the table, once per process and GPU.
bool card_follows_table();

} // namespace hw4::gpu
