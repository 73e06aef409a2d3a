// What is done with the rows of queries before and after the pairs.
#pragma once

#include <cuda_runtime.h>

#include "src/gpu/half/backward/args.h"

namespace hw4::gpu::half_backward {

// L and D of every row to scratch memory, and counters of 0 there.
void prepare_rows(const Args& args, cudaStream_t stream);

// dQ from its sums in scratch memory, which the groups of wgmma's kernel left there as their lanes have them: of tiles
// of 64 or 128 queries, d to 64 or 128.
void finish_queries(const Args& args, cudaStream_t stream);

} // namespace hw4::gpu::half_backward
