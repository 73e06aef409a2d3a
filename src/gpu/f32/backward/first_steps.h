// What every backward kernel begins with: O and the statistics of its rows, by forward unless somebody has them
// already, and from them what the pairs of each row need.
#pragma once

#include "src/gpu/f32/backward/gradient_args.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {

// Of a launch of the problem, at the beginning of its scratch memory.
size_t first_steps_bytes(const Problem& problem, const Device& device);

// What of it stays in use: the facts. The rest is free once these steps are done.
size_t facts_bytes(const Problem& problem);

// Where O was not given it stands in dQ's place until this is done, or, where no dQ is asked for, in scratch memory.
// The facts are in the launch's scratch memory, [unit][query], of the queries that are asked for (gradient_args()).
const RowFacts* take_first_steps(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
