// The kernels of f32, one file each, for the table in kernels.cu.
#pragma once

#include "src/gpu/kernels.h"

namespace hw4::gpu {

// A warp for each query row.
Plan plan_rows(const Problem& problem, const Device& device);
void launch_plain_rows(const Launch& launch, cudaStream_t stream);
void launch_shared_tiles(const Launch& launch, cudaStream_t stream);
void launch_padded_tiles(const Launch& launch, cudaStream_t stream);
void launch_coalesced_tiles(const Launch& launch, cudaStream_t stream);
void launch_unrolled_tiles(const Launch& launch, cudaStream_t stream);
void launch_register_rows(const Launch& launch, cudaStream_t stream);

// Tiles in registers: more columns would need more of them than a thread has.
constexpr int kMostTileColumns = 128;
Plan plan_tiles(const Problem& problem, const Device& device);
void launch_register_tiles(const Launch& launch, cudaStream_t stream);
void launch_async_tiles(const Launch& launch, cudaStream_t stream);
void launch_woven_tiles(const Launch& launch, cudaStream_t stream);
Plan plan_drawn_tiles(const Problem& problem, const Device& device);
void launch_drawn_tiles(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
