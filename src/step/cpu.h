// The machine of hw4 on a CPU: threads and vector units, the bytes of the reference.
#pragma once

#include <memory>

#include "src/step/machine.h"

namespace hw4::step {

// 0 threads: one for each processor.
std::unique_ptr<Machine> make_cpu(int threads);

} // namespace hw4::step
