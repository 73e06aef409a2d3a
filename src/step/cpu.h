// The machine of hw4 on a CPU: threads and vector units, the bytes of the reference.
#pragma once

#include <memory>
#include <vector>

#include "src/step/kernels.h"
#include "src/step/machine.h"

namespace hw4::step {

// Those that this processor has, the fastest last.
std::vector<const Kernels*> supported_kernels();

// 0 threads: one for each processor.
std::unique_ptr<Machine> make_cpu(int threads, const Kernels& kernels = *supported_kernels().back());

} // namespace hw4::step
