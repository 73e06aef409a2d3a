// The two large kernels of kept pairs, each with the tiling for its problem.
#pragma once

#include "src/gpu/f32/backward/round_args.h"

namespace hw4::gpu {

// Shared memory that a block takes.
size_t pair_bytes(int dim, const Device& device);
size_t sum_bytes(int dim);

// Sets the queue of the round and its counter, then forms its pairs.
void launch_pairs(RoundArgs args, const Device& device, cudaStream_t stream);
// Those that are asked for.
void launch_sums(RoundArgs args, cudaStream_t stream);

} // namespace hw4::gpu
