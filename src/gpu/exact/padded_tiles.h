#pragma once

#include "../kernels.h"

namespace hw4::gpu {

void launch_padded_tiles(const KernelArgs& args, cudaStream_t stream);

} // namespace hw4::gpu
