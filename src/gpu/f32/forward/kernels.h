// The launchers of the exact kernels, one file each, for the table in kernels.cu.
#pragma once

#include "src/gpu/kernels.h"

namespace hw4::gpu {

void launch_plain_rows(const KernelArgs& args, cudaStream_t stream);
void launch_shared_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_padded_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_coalesced_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_unrolled_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_register_rows(const KernelArgs& args, cudaStream_t stream);
void launch_register_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_paired_lanes(const KernelArgs& args, cudaStream_t stream);
void launch_async_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_ahead_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_woven_tiles(const KernelArgs& args, cudaStream_t stream);
void launch_drawn_tiles(const KernelArgs& args, cudaStream_t stream);

// As if the card had the device's multiprocessors: what tests of the queue need.
void launch_drawn_tiles_on(const Device& device, const KernelArgs& args, cudaStream_t stream);
size_t scratch_bytes_of_drawn_tiles(const Shape& shape, const Device& device);

// The least shared memory a block of the last six needs for head size `dim`.
size_t shared_bytes_of_tiles(int dim);

} // namespace hw4::gpu
