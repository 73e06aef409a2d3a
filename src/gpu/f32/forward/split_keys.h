// The launch of split_keys for each element type, in a file each.
#pragma once

#include "src/gpu/launch.h"
#include "src/gpu/plan.h"

namespace hw4::gpu::split {

template <class E>
Plan plan(const Problem& problem, const Device& device);

template <class E>
void launch(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu::split
