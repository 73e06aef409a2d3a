// Attention on the GPU, as the rest of the program sees it: no CUDA type here, so that a build without nvcc
// links absent.cpp in place of engine.cu and is otherwise the same program.
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
    std::string reason; // for a sentence that starts "no usable GPU: "; empty when it can be used
    ExitCode code = ExitCode::no_gpu;
};

// The first call starts the driver and makes the context, which `recorder` writes down. The calling thread uses that
// card from then on; after the last comes the first again.
Unusable unusable(const SpanRecorder& recorder = {}, int card = 0);

// 0 where there is none, or no driver.
int card_count();

// Why the kernel of that name, or any kernel of the contract when `name` is empty, cannot take this problem here; empty
// when it can.
std::string unsupported_reason(const Problem& problem, const std::string& name, const Contract& contract);

// The same of a kernel in a file of its own. Throws Error (usage) where its name is that of another.
std::string unsupported_reason(const Problem& problem, const Hw4Kernel& file);

// Brings a kernel in a file of its own (hw4_kernel.h) into this process, for good: the driver has its code. Throws
// Error: (no_input) the file cannot be opened, (bad_data) it is no kernel file, or one for another version of
// hw4_kernel.h.
const Hw4Kernel& load_kernel_file(const std::string& path);

// "CUDA 13.0 for sm_80 sm_90", "built without CUDA".
std::string build_description();

// The GPU must be usable. Throws Error.
std::unique_ptr<Engine> make_engine(const EngineRequest& request);

} // namespace hw4::gpu
