// A kernel in a file of its own (hw4_kernel.h), brought into this process. No CUDA here.
#pragma once

#include <string>

#include "src/gpu/hw4_kernel.h"

namespace hw4::gpu {

// It stays for good: the driver has its code. Throws Error: (no_input) the file cannot be opened, (bad_data) it is no
// kernel file, or one for another version of hw4_kernel.h.
const Hw4Kernel& load_kernel_file(const std::string& path);

} // namespace hw4::gpu
