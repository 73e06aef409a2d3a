// The pre-pass: K and V of every tile of 64 keys to digits, in the order in which the next kernel copies them.
#pragma once

#include "../kernels.h"
#include "layout.h"

namespace hw4::gpu::fixed_point {

void launch_prepare(const KernelArgs& args, const Prepared& to, cudaStream_t stream);

} // namespace hw4::gpu::fixed_point
