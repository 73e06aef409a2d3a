// A kernel in a file of its own as a row of the table: planned, launched and timed like any other.
#pragma once

#include "src/gpu/hw4_kernel.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {

// Under f32, whose ladder it stands on; whether it follows that contract is for others to find out. Throws Error
// (usage): the table has one of that name.
Kernel kernel_of_file(const Hw4Kernel& file);

} // namespace hw4::gpu
