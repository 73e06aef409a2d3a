// Whether the GPU or the CPU computes a case.
#pragma once

#include <optional>
#include <string>

#include "src/commands/options.h"
#include "src/gpu/engine.h"
#include "src/run/conveyor.h"

namespace hw4 {

// Where options name a kernel file, brings it in. Throws Error (no_gpu) in a build without the GPU engine.
void load_kernel_file(Options& options);

class EngineChoice {
public:
    // Throws Error (usage) for a kernel that there is not, or that is not what else was asked for.
    // `remarks`: whether to say on standard error what else is worth knowing.
    explicit EngineChoice(const Options& options, bool remarks = true);

    // Says so on stderr where it was left to choose and the CPU has to compute: once for all cases where the reason is
    // not the case, else once for an input, of which there may be several parts. The first call may make the GPU's
    // context. Throws Error.
    EngineMaker operator()(const EngineRequest& request);

    // Whether who would compute this case of backward gives some gradients of a head of keys without the others, too:
    // not every kernel of the GPU does. Says and throws what the call above does.
    bool gives_parts(const EngineRequest& request);

    // Why it last had to be the CPU though it was left to choose; empty where it was not so.
    const std::string& why_cpu() const { return why_cpu_; }

private:
    bool takes_gpu(const EngineRequest& request);
    const gpu::Unusable& no_gpu(const EngineRequest& request);
    void remark_cpu(const EngineRequest& request, const std::string& no_kernel);

    Device device_;
    bool remarks_;
    std::optional<gpu::Unusable> no_gpu_; // once it was asked
    std::string why_cpu_;
    std::optional<std::string> remarked_; // the input of which it was said; empty: of all
};

} // namespace hw4
