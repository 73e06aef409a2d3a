// The kernels of half precision.
#pragma once

#include <cuda_runtime.h>

#include "src/gpu/device.h"
#include "src/gpu/half/forward/args.h"

namespace hw4::gpu::half_forward {

// mma.sync, any card from compute capability 8.0 on, any dim to 256.
constexpr int64_t kMostColumns = 256;
void launch_mma(const Args& args, cudaStream_t stream);

// wgmma, compute capability 9.0 only: dim to 128, rows of all operands at boundaries of 16 bytes.
constexpr int64_t kMostWgmmaColumns = 128;
bool wgmma_takes(const Args& args);
void launch_wgmma(const Args& args, int multiprocessors, cudaStream_t stream);

// The one that is for the card and the operands. Their bytes may differ: tiles do.
inline void launch_forward(const Args& args, const Device& device, cudaStream_t stream) {
    if (device.arch == 90 && device.code_arch >= 90 && wgmma_takes(args))
        launch_wgmma(args, device.multiprocessors, stream);
    else
        launch_mma(args, stream);
}

} // namespace hw4::gpu::half_forward
