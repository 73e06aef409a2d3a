// The pre-pass: K and V of every tile of 64 keys to digits, in the order in which the next kernel copies them.
#pragma once

#include "../kernels.h"
#include "layout.h"

namespace hw4::gpu::fixed_point {

// To the beginning of the launch's scratch memory, prepared_bytes() of it.
Prepared launch_prepare(const KernelArgs& args, cudaStream_t stream);

} // namespace hw4::gpu::fixed_point
