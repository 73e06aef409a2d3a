// Chooses the GPU or the CPU for a case.
#pragma once

#include <optional>
#include <string>

#include "src/commands/options.h"
#include "src/gpu/engine.h"
#include "src/run/conveyor.h"

namespace hw4 {

// Loads the options' kernel file, if any. Throws Error (no_gpu) in a build without the GPU engine.
void load_kernel_file(Options& options);

class EngineChoice {
public:
    // Throws Error (usage) for a kernel that does not exist or conflicts with other options. `remarks`: whether to
    // print further remarks on standard error.
    explicit EngineChoice(const Options& options, bool remarks = true);

    // Prints a remark on stderr where the choice is free and the CPU must compute: once for all cases where the reason
    // does not depend on the case, else once per input, which may have several parts. The first call may create the
    // GPU's context. Throws Error.
    EngineMaker operator()(const EngineRequest& request);

    // Whether the engine for this backward case can compute some gradients of a key head without the others: not every
    // GPU kernel can. Prints and throws like the call above.
    bool gives_parts(const EngineRequest& request);

    // Why the CPU was last chosen although the choice was free; empty where it was not.
    const std::string& why_cpu() const { return why_cpu_; }

private:
    bool takes_gpu(const EngineRequest& request);
    const gpu::Unusable& no_gpu(const EngineRequest& request);
    void remark_cpu(const EngineRequest& request, const std::string& no_kernel);

    Device device_;
    bool remarks_;
    std::optional<gpu::Unusable> no_gpu_; // after the first use
    std::string why_cpu_;
    std::optional<std::string> remarked_; // the input that the last remark was about; empty: all inputs
};

} // namespace hw4
