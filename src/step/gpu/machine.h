// The machine of hw4 on a GPU of compute capability 8.0 or later: the bytes of the reference. All operations go into
// one stream; the host waits where it needs a result or hands over tokens.
#pragma once

#include <memory>

#include "src/step/machine.h"

namespace hw4::step {

// On the first GPU. Throws Error (no_gpu, out_of_memory) where it cannot be used.
std::unique_ptr<Machine> make_gpu();

} // namespace hw4::step
