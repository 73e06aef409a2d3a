// Kernels that work by blocks of rows (block_kernel.h): their plan and their launch.
#pragma once

#include "src/cpu/kernels.h"

namespace hw4::cpu {

Plan plan_blocks(const Kernel& kernel, const Problem& problem, int threads);
void launch_blocks(const Kernel& kernel, const Launch& launch);

} // namespace hw4::cpu
