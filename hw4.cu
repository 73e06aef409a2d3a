// hw4: attention from file to file. Arguments -> open the case -> choose the engine -> run -> rename the output.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/interrupt.h"
#include "src/base/parallel.h"
#include "src/base/standard_output.h"
#include "src/base/standard_streams.h"
#include "src/commands/options.h"
#include "src/cpu/engine.h"
#include "src/gpu/device/connections.h"
#include "src/gpu/engine.h"
#include "src/problem/domain.h"
#include "src/run/pipeline.h"
#include "src/run/run_report.h"

namespace hw4 {
namespace {

std::optional<KernelInfo> find_kernel(const std::vector<KernelInfo>& list, const std::string& name) {
    for (const KernelInfo& kernel : list)
        if (kernel.name == name) return kernel;
    return std::nullopt;
}

std::vector<KernelInfo> cpu_kernel_list() {
    std::vector<KernelInfo> list;
    for (const cpu::Kernel* kernel : cpu::kernels())
        list.push_back({kernel->name,
                        std::string(kernel->idea) + (kernel->supported() ? "" : " (not on this processor)"),
                        kernel->arithmetic});
    return list;
}

// A kernel named on the command line settles the engine.
Device device_of_kernel(const std::string& name, Device asked, Arithmetic arithmetic) {
    const std::optional<KernelInfo> on_gpu = find_kernel(gpu::kernel_list(), name);
    const std::optional<KernelInfo> kernel = on_gpu ? on_gpu : find_kernel(cpu_kernel_list(), name);
    if (!kernel) throw Error(ExitCode::usage, "no kernel '" + name + "'; --list-kernels names them");
    refuse_other_arithmetic(name, kernel->arithmetic, arithmetic);
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
    const std::string no_kernel = no_gpu.reason.empty() ? gpu::unsupported_reason(request.shape, request.options.kernel,
                                                                                  request.options.arithmetic)
                                                        : "";
    if (no_gpu.reason.empty() && no_kernel.empty()) return true;
    if (device == Device::gpu && !no_gpu.reason.empty()) throw Error(no_gpu.code, "no usable GPU: " + no_gpu.reason);
    if (device == Device::gpu) {
        const bool another = !options.engine.kernel.empty() && gpu::unsupported_reason(request.shape, "").empty();
        const char* way_out = another ? "; without --kernel another is taken" : "; --device cpu can";
        throw Error(ExitCode::bad_data, options.input + ": " + no_kernel + way_out);
    }
    std::fprintf(stderr, "hw4: using the CPU: %s\n", (no_gpu.reason.empty() ? no_kernel : no_gpu.reason).c_str());
    return false;
}

// The ranges the course states, as a remark and no more: its own cases t12 and t22 break the one for B*N*d.
void remark_unusual(const std::string& input, const Shape& shape) {
    const bool is_power_of_two = (shape.tokens & (shape.tokens - 1)) == 0;
    const bool usual = shape.batches >= 2 && shape.batches <= 14000 && is_power_of_two && shape.tokens >= 128 &&
                       shape.tokens <= 32768 && (shape.dim == 32 || shape.dim == 64) &&
                       shape.output_bytes() / sizeof(float) < 56000000;
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

void compute(const Options& options) {
    Timeline timeline;
    const std::string& kernel = options.engine.kernel;
    const Device device =
        kernel.empty() ? options.device : device_of_kernel(kernel, options.device, options.engine.arithmetic);
    if (device != Device::cpu) gpu::ask_for_few_connections();
    InterruptGuard interrupts;
    CaseReader input(options.input);
    refuse_many_columns(options.input, input.shape(), options.engine.arithmetic);
    refuse_overwriting(input, options.output);
    const std::vector<FileIdentity> kept = files_of_run(input, {options.output, options.json, options.trace});
    OutputFile output(options.output, interrupts, kept);
    remark_leftovers("hw4", output);
    const std::unique_ptr<OutputFile> json = open_report(options.json, options, input, kept, interrupts);
    const std::unique_ptr<OutputFile> trace = open_report(options.trace, options, input, kept, interrupts);
    if (json && trace) refuse_same_output(options.json, options.trace);
    const auto on_stdout = [](const OutputFile* file) { return file != nullptr && file->writes_to(STDOUT_FILENO); };
    FILE* const lines = on_stdout(&output) || on_stdout(json.get()) || on_stdout(trace.get()) ? stderr : stdout;
    const Shape& shape = input.shape();
    std::fprintf(lines, "(B, N, d): (%lld, %lld, %lld)\n", static_cast<long long>(shape.batches),
                 static_cast<long long>(shape.tokens), static_cast<long long>(shape.dim));
    remark_unusual(options.input, shape);

    const auto make_engine = [&](const EngineRequest& request) {
        return choose_gpu(options, device, request) ? gpu::make_engine(request) : cpu::make_engine(request);
    };
    const bool timed = options.time || json || trace;
    const RunReport report = run_pipeline(input, output, options.engine, staging_limits(available_processors()),
                                          make_engine, timed ? &timeline : nullptr);
    output.finish(options.sync);
    const RunFigures figures{summarise(timeline.spans()), timeline.now(), host_peak_bytes()};
    if (json) finish_report(*json, json_text(options.input, shape, report, figures), options.sync);
    if (trace) finish_report(*trace, trace_text(timeline), options.sync);
    // All files are complete; only their names are left. A line that standard output does not take is no reason to
    // throw the result away, so it comes after.
    output.publish(options.sync);
    if (json) json->publish(options.sync);
    if (trace) trace->publish(options.sync);
    std::fprintf(lines, "Time: %.3f seconds\n", figures.total_seconds);
    if (options.time) std::fputs(time_table(report, figures).c_str(), lines);
}

void list_kernels() {
    const auto print = [](const char* device, const std::vector<KernelInfo>& list) {
        for (const KernelInfo& kernel : list)
            std::printf("%s  %-16s %-5s  %s\n", device, kernel.name.c_str(), name_of(kernel.arithmetic),
                        kernel.idea.c_str());
    };
    print("gpu", gpu::kernel_list());
    print("cpu", cpu_kernel_list());
}

void act(const Options& options) {
    switch (options.action) {
    case Action::help: std::fputs(kHelpText, stdout); break;
    case Action::version:
        std::printf("hw4 %s, contracts %s and %s, %s\n", kVersion, name_of(Arithmetic::f32), name_of(Arithmetic::fixed),
                    gpu::build_description().c_str());
        break;
    case Action::list_kernels: list_kernels(); break;
    case Action::run: compute(options); break;
    }
    flush_standard_output();
}

int fail(ExitCode code, const char* message) {
    std::fflush(stdout);
    std::fprintf(stderr, "hw4: %s\n", message);
    return static_cast<int>(code);
}

} // namespace
} // namespace hw4

int main(int argc, char** argv) {
    hw4::occupy_closed_streams();
    try {
        hw4::act(hw4::parse_options(argc, argv));
        return 0;
    } catch (const hw4::Error& error) {
        return hw4::fail(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return hw4::fail(hw4::ExitCode::out_of_memory, "out of host memory");
    } catch (const std::exception& error) {
        return hw4::fail(hw4::ExitCode::internal, error.what());
    }
}
