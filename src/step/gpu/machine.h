// The machine of hw4 on a GPU of compute capability 8.0 or later: the bytes of the reference. All operations go into
// one stream; the host waits where it needs a result or hands over tokens.
#pragma once

#include <memory>

#include "src/step/machine.h"

namespace hw4::step {

// On the GPU of that number, counted round. Throws Error (no_gpu, out_of_memory) where it cannot be used.
std::unique_ptr<Machine> make_gpu(int card = 0);

} // namespace hw4::step
