// The CPU's kernels of bf16 and fp16: f32's, by blocks of rows, on rounded copies of the inputs; then O is rounded.
#pragma once

#include "src/cpu/kernels.h"

namespace hw4::cpu {

Plan plan_rounded(const Kernel& kernel, const Problem& problem, int threads);
void launch_rounded(const Kernel& kernel, const Launch& launch);

} // namespace hw4::cpu
