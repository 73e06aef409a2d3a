// The kernels of the contract fixed16, for the table in kernels.cu.
#pragma once

#include "src/gpu/kernels.h"

namespace hw4::gpu {

// mma.sync, any card from compute capability 8.0 on.
Plan plan_mma_pairs(const Problem& problem, const Device& device); // of table_pairs too
void launch_table_pairs(const Launch& launch, cudaStream_t stream);
void launch_mma_pairs(const Launch& launch, cudaStream_t stream);

// wgmma, compute capability 9.0 only, d up to kMostWgmmaColumns.
Plan plan_wgmma_pairs(const Problem& problem, const Device& device);
void launch_wgmma_pairs(const Launch& launch, cudaStream_t stream);
bool launch_pairs_whole(const Launch& launch, cudaStream_t stream); // false: it is not for that, and did nothing

} // namespace hw4::gpu
