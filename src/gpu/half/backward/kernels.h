// The backward kernels of half precision.
#pragma once

#include <cuda_runtime.h>

#include "src/gpu/half/backward/args.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {

// mma.sync, any card from compute capability 8.0 on, d up to 256 where a block may have 100 KiB, else up to 128.
Plan plan_mma_half_gradients(const Problem& problem, const Device& device);
void launch_mma_bf16_gradients(const Launch& launch, cudaStream_t stream);
void launch_mma_fp16_gradients(const Launch& launch, cudaStream_t stream);

// wgmma, compute capability 9.0 only, d up to 128.
Plan plan_wgmma_half_gradients(const Problem& problem, const Device& device);
void launch_wgmma_again(const Launch& launch, cudaStream_t stream);
void launch_wgmma_bf16_gradients(const Launch& launch, cudaStream_t stream);
void launch_wgmma_fp16_gradients(const Launch& launch, cudaStream_t stream);

namespace half_backward {

size_t mma_gradient_bytes(int64_t dim);
void launch_mma(const Args& args, const Device& device, cudaStream_t stream);

// Rows of all operands have to be at boundaries of 16 bytes.
size_t wgmma_gradient_bytes(int64_t dim);
void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream);

// A step to it, of bf16: dQ by a kernel of its own.
size_t wgmma_again_bytes(int64_t dim);
void launch_wgmma_again(const Args& args, const Device& device, cudaStream_t stream);

} // namespace half_backward
} // namespace hw4::gpu
