// The kernels of half precision, forward and backward.
#pragma once

#include <cuda_runtime.h>

#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/forward/args.h"
#include "src/gpu/launch.h"
#include "src/gpu/plan.h"

namespace hw4::gpu {

namespace half_forward {

using Launcher = void (*)(const Args& args, const Device& device, cudaStream_t stream);

// mma.sync, any GPU from compute capability 8.0 on, any d up to 256.
size_t mma_shared_bytes(int64_t dim);
void launch_mma(const Args& args, const Device& device, cudaStream_t stream);

// wgmma, compute capability 9.0 only, d up to 128.
size_t wgmma_shared_bytes(int64_t dim);
void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream);

// The steps to launch_wgmma, for bf16.
void launch_wgmma_stage(const Args& args, const Device& device, cudaStream_t stream);
void launch_wgmma_ring(const Args& args, const Device& device, cudaStream_t stream);
void launch_wgmma_ahead(const Args& args, const Device& device, cudaStream_t stream);

// mma.sync, few query rows: the keys of a sequence split into parts. Takes lengths.
Plan plan_split(const Problem& problem, const Device& device);
void launch_split(const Launch& launch, cudaStream_t stream);

// Why the problem has too many rows for all of these kernels; empty: it has not.
std::string why_too_long(const Problem& problem);

} // namespace half_forward

Plan plan_mma_half(const Problem& problem, const Device& device);
Plan plan_wgmma_half(const Problem& problem, const Device& device);
Plan plan_split_half(const Problem& problem, const Device& device);

// A row of the table: the kernel on a launch's tensors.
template <half_forward::Launcher kKernel>
void launch_half(const Launch& launch, cudaStream_t stream) {
    kKernel(half_forward::args_of(launch), launch.device, stream);
}

// ---- Backward

namespace half_backward {

using Launcher = void (*)(const Args& args, const Device& device, cudaStream_t stream);

// mma.sync, any GPU from compute capability 8.0 on, d up to 256 if a block may have 100 KiB, else up to 128.
size_t mma_gradient_bytes(int64_t dim);
void launch_mma(const Args& args, const Device& device, cudaStream_t stream);

// wgmma, compute capability 9.0 only, d up to 128.
size_t wgmma_gradient_bytes(int64_t dim);
void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream);

// The arguments of backward for a launch. Its scratch memory has space for O and the statistics of its rows, which the
// launch may provide, and for the kernel's own memory.
Args args_of(const Launch& launch);

} // namespace half_backward

Plan plan_mma_half_gradients(const Problem& problem, const Device& device);
Plan plan_wgmma_half_gradients(const Problem& problem, const Device& device);

// A row of the table: the kernel on a launch's tensors, after forward's if the launch has no O.
template <half_forward::Launcher kForwardKernel, half_backward::Launcher kKernel>
void launch_half_gradients(const Launch& launch, cudaStream_t stream) {
    const half_backward::Args args = half_backward::args_of(launch);
    if (launch.forward_out.data == nullptr) kForwardKernel(args.forward, launch.device, stream);
    kKernel(args, launch.device, stream);
}

} // namespace hw4::gpu
