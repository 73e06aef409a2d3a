// The CPU's kernels of bf16 and fp16 that have the reference's bytes: f32's on rounded copies of the inputs; then what
// they give is rounded. Backward does its own forward even where one was done before: that one's O is rounded, and the
// reference's is not.
#pragma once

#include "src/cpu/kernels.h"

namespace hw4::cpu {

Plan plan_rounded(const Kernel& kernel, const Problem& problem, int threads);
void launch_rounded(const Kernel& kernel, const Launch& launch);

} // namespace hw4::cpu
