// The launchers of the kernels of the contract `fixed`, for the table in kernels.cu.
#pragma once

#include "src/gpu/kernels.h"

namespace hw4::gpu {

// mma.sync, any card from compute capability 8.0 on.
void launch_mma_groups(const KernelArgs& args, cudaStream_t stream);
size_t shared_bytes_of_mma_groups(int dim);

// wgmma, compute capability 9.0 only, d up to 128.
void launch_wgmma_group(const KernelArgs& args, cudaStream_t stream);
void launch_wgmma_groups(const KernelArgs& args, cudaStream_t stream);
size_t shared_bytes_of_wgmma_groups(int dim);
void launch_wgmma_shares(const KernelArgs& args, cudaStream_t stream);
size_t shared_bytes_of_wgmma_shares(int dim);
size_t scratch_bytes_of_wgmma_shares(const Shape& shape, const Device& device);
constexpr int kMostWgmmaColumns = 128;

// For all others.
size_t scratch_bytes_of_fixed(const Shape& shape, const Device& device);

} // namespace hw4::gpu
