// Attention on the GPU, for the rest of the program. There is no CUDA type here, so a build without nvcc links
// absent.cpp instead of engine.cu and is otherwise the same program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/gpu/hw4_kernel.h"
#include "src/run/engine.h"

namespace hw4::gpu {

// Every GPU kernel of this build, in ladder order.
std::vector<KernelInfo> kernel_list();

// Why the GPU cannot be used.
struct Unusable {
    std::string reason; // for a sentence that starts "no usable GPU: "; empty if the GPU can be used
    ExitCode code = ExitCode::no_gpu;
};

// The first call starts the driver and creates the context, which `recorder` records. From then on the calling thread
// uses that GPU; numbers beyond the last GPU start again at the first.
Unusable unusable(const SpanRecorder& recorder = {}, int card = 0);

// 0 if there is no GPU or no driver.
int card_count();

// Why the kernel of that name, or any kernel of the contract if `name` is empty, cannot take this problem here; empty
// if it can.
std::string unsupported_reason(const Problem& problem, const std::string& name, const Contract& contract);

// The same for a kernel from a file. Throws Error (usage) if its name is that of another kernel.
std::string unsupported_reason(const Problem& problem, const Hw4Kernel& file);

// Loads a kernel from a file (hw4_kernel.h) into this process and never unloads it: the driver has its code. Throws
// Error: (no_input) the file cannot be opened, (bad_data) it is not a kernel file, or is for another version of
// hw4_kernel.h.
const Hw4Kernel& load_kernel_file(const std::string& path);

// "CUDA 13.0 for sm_80 sm_90", "built without CUDA".
std::string build_description();

// The GPU must be usable. Throws Error.
std::unique_ptr<Engine> make_engine(const EngineRequest& request);

} // namespace hw4::gpu
