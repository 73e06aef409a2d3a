// The kernels of half precision.
#pragma once

#include <cuda_runtime.h>

#include "src/gpu/half/forward/args.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {

// mma.sync, any card from compute capability 8.0 on, any d up to 256.
Plan plan_mma_half(const Problem& problem, const Device& device);
void launch_mma_bf16(const Launch& launch, cudaStream_t stream);
void launch_mma_fp16(const Launch& launch, cudaStream_t stream);

// wgmma, compute capability 9.0 only, d up to 128.
Plan plan_wgmma_half(const Problem& problem, const Device& device);
void launch_wgmma_stage(const Launch& launch, cudaStream_t stream);
void launch_wgmma_ring(const Launch& launch, cudaStream_t stream);
void launch_wgmma_ahead(const Launch& launch, cudaStream_t stream);
void launch_wgmma_turns(const Launch& launch, cudaStream_t stream);
void launch_wgmma_bf16(const Launch& launch, cudaStream_t stream);
void launch_wgmma_fp16(const Launch& launch, cudaStream_t stream);

namespace half_forward {

size_t mma_shared_bytes(int64_t dim);
void launch_mma(const Args& args, const Device& device, cudaStream_t stream);

// Rows of all operands have to be at boundaries of 16 bytes.
size_t wgmma_shared_bytes(int64_t dim);
void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream);

// The steps to it, of bf16.
void launch_wgmma_stage(const Args& args, const Device& device, cudaStream_t stream);
void launch_wgmma_ring(const Args& args, const Device& device, cudaStream_t stream);
void launch_wgmma_ahead(const Args& args, const Device& device, cudaStream_t stream);
void launch_wgmma_turns(const Args& args, const Device& device, cudaStream_t stream);

} // namespace half_forward
} // namespace hw4::gpu
