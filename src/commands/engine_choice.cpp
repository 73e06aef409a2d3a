#include "src/commands/engine_choice.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <sstream>
#include <vector>

#include "src/base/command_line.h"
#include "src/base/error.h"
#include "src/cpu/engine.h"

namespace hw4 {
namespace {

std::optional<KernelInfo> find_kernel(const std::vector<KernelInfo>& list, const std::string& name) {
    for (const KernelInfo& kernel : list)
        if (kernel.name == name) return kernel;
    return std::nullopt;
}

// All GPU kernels, listed in this build or not: the Makefile reads their names from src/gpu/*/kernels.cu.
#ifdef HW4_GPU_KERNELS
constexpr const char* kGpuKernels = HW4_GPU_KERNELS;
#else
constexpr const char* kGpuKernels = "";
#endif
[[noreturn]] void refuse_kernel(const std::string& name) {
    std::istringstream words(kGpuKernels);
    std::vector<std::string> known{std::istream_iterator<std::string>(words), {}};
    if (std::find(known.begin(), known.end(), name) != known.end())
        throw Error(ExitCode::no_gpu,
                    "kernel '" + name + "' is a GPU kernel, and this build lacks it: " + gpu::build_description());
    for (const KernelInfo& kernel : cpu::kernel_list()) known.push_back(kernel.name);
    throw Error(ExitCode::usage,
                "no kernel '" + name + "'" + did_you_mean(name, known) + "; --list-kernels names them");
}

// A kernel named on the command line determines the engine.
Device device_of_kernel(const std::string& name, Device asked, const Contract& contract) {
    const std::optional<KernelInfo> on_gpu = find_kernel(gpu::kernel_list(), name);
    const std::optional<KernelInfo> kernel = on_gpu ? on_gpu : find_kernel(cpu::kernel_list(), name);
    if (!kernel) refuse_kernel(name);
    refuse_other_contract(name, *kernel->under, contract);
    const Device needed = on_gpu ? Device::gpu : Device::cpu;
    if (asked != Device::automatic && asked != needed)
        throw Error(ExitCode::usage, "kernel '" + name + "' is a " + (on_gpu ? "GPU" : "CPU") +
                                         " kernel, but --device asks for the other");
    return needed;
}

// Why no allowed GPU kernel takes the problem; empty where one does.
std::string no_gpu_kernel(const EngineRequest& request, const Problem& problem) {
    const EngineOptions& options = request.options;
    return options.kernel_file != nullptr ? gpu::unsupported_reason(problem, *options.kernel_file)
                                          : gpu::unsupported_reason(problem, options.kernel, *options.contract);
}

Device chosen_device(const Options& options) {
    if (options.engine.kernel_file != nullptr) return Device::gpu;
    if (options.engine.kernel.empty()) return options.device;
    return device_of_kernel(options.engine.kernel, options.device, *options.engine.contract);
}

} // namespace

void load_kernel_file(Options& options) {
    if (options.kernel_file.empty()) return;
    if (gpu::kernel_list().empty())
        throw Error(ExitCode::no_gpu, "--kernel-file '" + options.kernel_file +
                                          "' needs a build with CUDA, and hw4 was " + gpu::build_description());
    options.engine.kernel_file = &gpu::load_kernel_file(options.kernel_file);
    refuse_other_contract(options.engine.kernel_file->name, kF32, *options.engine.contract);
}

EngineChoice::EngineChoice(const Options& options, bool remarks) : device_(chosen_device(options)), remarks_(remarks) {}

EngineMaker EngineChoice::operator()(const EngineRequest& request) {
    if (takes_gpu(request)) return {"gpu", gpu::make_engine};
    return {"cpu", cpu::make_engine};
}

bool EngineChoice::gives_parts(const EngineRequest& request) {
    if (!takes_gpu(request)) return true;
    Problem of_keys = request.problem.of_operation(kKeyGradients);
    of_keys.block_keys = of_keys.keys;
    const Problem of_queries = request.problem.of_operation(kQueryGradients);
    return no_gpu_kernel(request, of_keys).empty() && no_gpu_kernel(request, of_queries).empty();
}

const gpu::Unusable& EngineChoice::no_gpu(const EngineRequest& request) {
    if (!no_gpu_) no_gpu_ = gpu::unusable(request.recorder, request.options.card);
    return *no_gpu_;
}

bool EngineChoice::takes_gpu(const EngineRequest& request) {
    if (device_ == Device::cpu) return false;
    const gpu::Unusable& unusable = no_gpu(request);
    const Hw4Kernel* const file = request.options.kernel_file;
    std::string no_kernel;
    if (unusable.reason.empty()) no_kernel = no_gpu_kernel(request, request.problem);
    if (unusable.reason.empty() && no_kernel.empty()) return true;
    if (device_ == Device::gpu && !unusable.reason.empty())
        throw Error(unusable.code, "no usable GPU: " + unusable.reason);
    if (device_ == Device::gpu) {
        const bool named = !request.options.kernel.empty() || file != nullptr;
        const bool another = named && gpu::unsupported_reason(request.problem, "", *request.options.contract).empty();
        const char* way_out = !another          ? "; --device cpu can"
                              : file == nullptr ? "; without --kernel another is taken"
                                                : "; without --kernel-file another is taken";
        throw Error(ExitCode::bad_data, request.input + ": " + no_kernel + way_out);
    }
    remark_cpu(request, no_kernel);
    return false;
}

void EngineChoice::remark_cpu(const EngineRequest& request, const std::string& no_kernel) {
    why_cpu_ = no_kernel.empty() ? no_gpu_->reason : no_kernel;
    const std::string of_case = no_kernel.empty() ? "" : request.input;
    if (!remarks_ || remarked_ == of_case) return;
    remarked_ = of_case;
    const std::string which = request.more_follow && !of_case.empty() ? one_line(of_case) + ": " : "";
    std::fprintf(stderr, "hw4: %susing the CPU: %s\n", which.c_str(), why_cpu_.c_str());
}

} // namespace hw4
