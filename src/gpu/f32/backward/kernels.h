// The backward kernels of f32, one file each, for the table in kernels.cu. They take parts of backward too, which
// differ in gradient_args() alone: the kernels' loops do not know of them.
#pragma once

#include "src/gpu/kernels.h"

namespace hw4::gpu {

// Pairs computed where they are needed: for dQ, and once more for dK and dV.
Plan plan_plain_gradients(const Problem& problem, const Device& device);
void launch_plain_gradients(const Launch& launch, cudaStream_t stream);
void launch_shared_gradients(const Launch& launch, cudaStream_t stream);

// Pairs computed once and kept.
Plan plan_kept_pairs(const Problem& problem, const Device& device);
void launch_kept_pairs(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
