// The kernels of half precision.
#pragma once

#include <cuda_runtime.h>

#include "src/gpu/half/forward/args.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {
namespace half_forward {

using Launcher = void (*)(const Args& args, const Device& device, cudaStream_t stream);

// mma.sync, any card from compute capability 8.0 on, any d up to 256.
size_t mma_shared_bytes(int64_t dim);
void launch_mma(const Args& args, const Device& device, cudaStream_t stream);

// wgmma, compute capability 9.0 only, d up to 128.
size_t wgmma_shared_bytes(int64_t dim);
void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream);

// The steps to it, of bf16.
void launch_wgmma_stage(const Args& args, const Device& device, cudaStream_t stream);
void launch_wgmma_ring(const Args& args, const Device& device, cudaStream_t stream);
void launch_wgmma_ahead(const Args& args, const Device& device, cudaStream_t stream);

// Why the problem has too many rows for either; empty: it has not.
std::string why_too_long(const Problem& problem);

} // namespace half_forward

Plan plan_mma_half(const Problem& problem, const Device& device);
Plan plan_wgmma_half(const Problem& problem, const Device& device);

// A row of the table: the kernel on a launch's tensors.
template <half_forward::Launcher kKernel>
void launch_half(const Launch& launch, cudaStream_t stream) {
    kKernel(half_forward::args_of(launch), launch.device, stream);
}

} // namespace hw4::gpu
