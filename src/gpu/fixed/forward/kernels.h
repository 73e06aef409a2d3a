// The kernels of the contract `fixed`, for the table in kernels.cu.
#pragma once

#include "src/gpu/kernels.h"

namespace hw4::gpu {

// mma.sync, any card from compute capability 8.0 on.
Plan plan_mma_groups(const Problem& problem, const Device& device);
void launch_mma_groups(const Launch& launch, cudaStream_t stream);

// wgmma, compute capability 9.0 only.
constexpr int kMostWgmmaColumns = 128;
Plan plan_wgmma_groups(const Problem& problem, const Device& device); // of one group too
void launch_wgmma_group(const Launch& launch, cudaStream_t stream);
void launch_wgmma_groups(const Launch& launch, cudaStream_t stream);
Plan plan_wgmma_shares(const Problem& problem, const Device& device);
void launch_wgmma_shares(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
