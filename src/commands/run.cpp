// Arguments -> open the case -> choose the engine -> run -> rename the output.
#include "src/commands/run.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/interrupt.h"
#include "src/base/parallel.h"
#include "src/cpu/engine.h"
#include "src/gpu/device/connections.h"
#include "src/gpu/engine.h"
#include "src/problem/words.h"
#include "src/run/pipeline.h"
#include "src/run/run_report.h"

namespace hw4 {
namespace {

std::optional<KernelInfo> find_kernel(const std::vector<KernelInfo>& list, const std::string& name) {
    for (const KernelInfo& kernel : list)
        if (kernel.name == name) return kernel;
    return std::nullopt;
}

// A kernel named on the command line settles the engine.
Device device_of_kernel(const std::string& name, Device asked, const Contract& contract) {
    const std::optional<KernelInfo> on_gpu = find_kernel(gpu::kernel_list(), name);
    const std::optional<KernelInfo> kernel = on_gpu ? on_gpu : find_kernel(cpu::kernel_list(), name);
    if (!kernel) throw Error(ExitCode::usage, "no kernel '" + name + "'; --list-kernels names them");
    refuse_other_contract(name, *kernel->under, contract);
    const Device needed = on_gpu ? Device::gpu : Device::cpu;
    if (asked != Device::automatic && asked != needed)
        throw Error(ExitCode::usage, "kernel '" + name + "' is a " + (on_gpu ? "GPU" : "CPU") +
                                         " kernel, but --device asks for the other");
    return needed;
}

// Whether the GPU computes, and says so on stderr where it was left to choose and the CPU has to.
bool choose_gpu(const Options& options, Device device, const EngineRequest& request) {
    if (device == Device::cpu) return false;
    const gpu::Unusable no_gpu = gpu::unusable(request.pen);
    const auto no_kernel_named = [&](const std::string& name) {
        return gpu::unsupported_reason(request.problem, name, *request.options.contract);
    };
    const std::string no_kernel = no_gpu.reason.empty() ? no_kernel_named(request.options.kernel) : "";
    if (no_gpu.reason.empty() && no_kernel.empty()) return true;
    if (device == Device::gpu && !no_gpu.reason.empty()) throw Error(no_gpu.code, "no usable GPU: " + no_gpu.reason);
    if (device == Device::gpu) {
        const bool another = !options.engine.kernel.empty() && no_kernel_named("").empty();
        const char* way_out = another ? "; without --kernel another is taken" : "; --device cpu can";
        throw Error(ExitCode::bad_data, options.input + ": " + no_kernel + way_out);
    }
    std::fprintf(stderr, "hw4: using the CPU: %s\n", (no_gpu.reason.empty() ? no_kernel : no_gpu.reason).c_str());
    return false;
}

// The ranges the course states, as a remark and no more: its own cases t12 and t22 break the one for B*N*d.
void remark_unusual(const std::string& input, const Problem& problem) {
    if (!is_plain(problem)) return;
    const int64_t tokens = problem.queries;
    const bool is_power_of_two = (tokens & (tokens - 1)) == 0;
    const bool usual = problem.batches >= 2 && problem.batches <= 14000 && is_power_of_two && tokens >= 128 &&
                       tokens <= 32768 && (problem.dim == 32 || problem.dim == 64) &&
                       problem.output_bytes() / sizeof(float) < 56000000;
    if (!usual)
        std::fprintf(stderr,
                     "hw4: %s: note: outside the course's range (B 2..14000, N a power of two 128..32768, d 32 or 64, "
                     "B*N*d < 56 M)\n",
                     one_line(input).c_str());
}

// A file beside the output that tells about the run. Opened before the work, so that a bad name shows at once.
std::unique_ptr<OutputFile> open_report(const std::string& path, const Options& options, const CaseReader& input,
                                        const std::vector<FileIdentity>& kept, InterruptGuard& interrupts) {
    if (path.empty()) return nullptr;
    refuse_overwriting(input, path);
    refuse_same_output(options.output, path);
    auto file = std::make_unique<OutputFile>(path, interrupts, kept);
    remark_leftovers("hw4", *file);
    return file;
}

void finish_report(OutputFile& file, const std::string& text, bool sync) {
    file.write(text.data(), text.size());
    file.finish(sync);
}

void refuse_what_the_contract_lacks(const CaseReader& input, const Contract& contract) {
    const std::string reason = why_not(contract, input.problem());
    if (!reason.empty()) throw Error(ExitCode::bad_data, input.path() + ": " + reason);
}

} // namespace

void run(const Options& options) {
    Timeline timeline;
    const std::string& kernel = options.engine.kernel;
    const Device device =
        kernel.empty() ? options.device : device_of_kernel(kernel, options.device, *options.engine.contract);
    if (device != Device::cpu) gpu::ask_for_few_connections();
    InterruptGuard interrupts;
    CaseReader input(options.input);
    refuse_what_the_contract_lacks(input, *options.engine.contract);
    refuse_overwriting(input, options.output);
    const std::vector<FileIdentity> kept = files_of_run(input, {options.output, options.json, options.trace});
    OutputFile output(options.output, interrupts, kept);
    remark_leftovers("hw4", output);
    const std::unique_ptr<OutputFile> json = open_report(options.json, options, input, kept, interrupts);
    const std::unique_ptr<OutputFile> trace = open_report(options.trace, options, input, kept, interrupts);
    if (json && trace) refuse_same_output(options.json, options.trace);
    const auto on_stdout = [](const OutputFile* file) { return file != nullptr && file->writes_to(STDOUT_FILENO); };
    FILE* const lines = on_stdout(&output) || on_stdout(json.get()) || on_stdout(trace.get()) ? stderr : stdout;
    const Problem& problem = input.problem();
    const auto [names, sizes] = sizes_of(problem);
    std::fprintf(lines, "%s: %s\n", names.c_str(), sizes.c_str());
    remark_unusual(options.input, problem);

    const auto make_engine = [&](const EngineRequest& request) {
        return choose_gpu(options, device, request) ? gpu::make_engine(request) : cpu::make_engine(request);
    };
    const bool timed = options.time || json || trace;
    OutputChecksum checksum;
    const RunReport report = run_pipeline(input, output, options.engine, staging_limits(available_processors()),
                                          make_engine, timed ? &timeline : nullptr, json ? &checksum : nullptr);
    output.finish(options.sync);
    const RunFigures figures{summarise(timeline.spans()), timeline.now(), host_peak_bytes()};
    if (json) finish_report(*json, json_text(options.input, report, figures), options.sync);
    if (trace) finish_report(*trace, trace_text(timeline), options.sync);
    // All files are complete; only their names are left. A line that standard output does not take is no reason to
    // throw the result away, so it comes after.
    output.publish(options.sync);
    if (json) json->publish(options.sync);
    if (trace) trace->publish(options.sync);
    std::fprintf(lines, "Time: %.3f seconds\n", figures.total_seconds);
    if (options.time) std::fputs(time_table(report, figures).c_str(), lines);
}

} // namespace hw4
