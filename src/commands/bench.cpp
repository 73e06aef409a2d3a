// Options -> cells -> rows, one after another -> table and files, complete after each row.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "src/base/interrupt.h"
#include "src/base/standard_streams.h"
#include "src/bench/accumulate.h"
#include "src/bench/baseline.h"
#include "src/bench/measure.h"
#include "src/bench/memory_timeline.h"
#include "src/bench/outcome.h"
#include "src/bench/row_json.h"
#include "src/bench/sweep.h"
#include "src/bench/tables.h"
#include "src/commands/bench_collectives.h"
#include "src/commands/bench_options.h"
#include "src/commands/run.h"
#include "src/cpu/engine.h"
#include "src/gpu/engine.h"
#include "src/io/output_file.h"
#include "src/io/run_files.h"
#include "src/ranks/agree.h"

namespace hw4 {
namespace {

using bench::Cell;
using bench::Row;
using bench::Status;

constexpr const char* kName = "hw4 bench"; // in messages

// Throws Error (usage) where two outputs would be one file.
RunFiles files_of(const bench::Request& request) {
    RunFiles files;
    for (const std::string& path : {request.output, request.csv, request.memory})
        if (!path.empty()) files.add_output(path);
    return files;
}

// "gpu" or "cpu". A request for a GPU creates its context.
std::string usable_device(Device asked, bool quiet) {
    if (asked == Device::cpu) return "cpu";
    const gpu::Unusable unusable = gpu::unusable();
    if (unusable.reason.empty()) return "gpu";
    if (asked == Device::gpu) throw Error(unusable.code, "no usable GPU: " + unusable.reason);
    if (!quiet) std::fprintf(stderr, "hw4 bench: using the CPU: %s\n", unusable.reason.c_str());
    return "cpu";
}

// The kernel of --kernel-file; null without that option.
const Hw4Kernel* kernel_file_of(const bench::Request& request, const std::string& device) {
    if (request.kernel_file.empty()) return nullptr;
    if (device != "gpu") throw Error(ExitCode::no_gpu, "--kernel-file has a kernel for a GPU, and this is the CPU");
    return &gpu::load_kernel_file(request.kernel_file);
}

// A kernel file without --kernel is measured alone.
std::vector<Cell> cells_for(const bench::Request& request, const std::string& device, const Hw4Kernel* file) {
    if (device != "gpu") return cells_of(request.sweep, device, cpu::kernel_list());
    std::vector<KernelInfo> kernels = gpu::kernel_list();
    bench::Sweep sweep = request.sweep;
    if (file != nullptr) {
        kernels.push_back({file->name, file->idea, &kForward, &kF32, ""});
        if (sweep.kernels.empty()) sweep.kernels = {file->name};
    }
    return cells_of(sweep, device, kernels);
}

// Announces each of several cells in a line; on a terminal in a line that later lines replace, with the current step.
class CellProgress {
public:
    explicit CellProgress(bool quiet) : quiet_(quiet), shown_(!quiet && ::isatty(STDERR_FILENO) == 1) {}

    void begin(size_t index, size_t count, const Cell& cell) {
        place_ = count > 1 ? "[" + std::to_string(index + 1) + "/" + std::to_string(count) + "] " : "";
        if (!quiet_ && !shown_ && count > 1) std::fprintf(stderr, "%s%s\n", place_.c_str(), words_of(cell).c_str());
    }
    void report(const std::string& what) const {
        if (!shown_) return;
        std::fprintf(stderr, "\r\033[K%s%s", place_.c_str(), what.c_str());
        std::fflush(stderr);
    }
    void clear() const {
        if (shown_) std::fputs("\r\033[K", stderr);
    }

private:
    bool quiet_, shown_;
    std::string place_; // [7/20]
};

class Bench {
public:
    Bench(const bench::Request& request, std::vector<std::string> argv)
        : request_(request), lines_(files_of(request).has_standard_output() ? stderr : stdout),
          device_(usable_device(request.device, request.quiet)), kernel_file_(kernel_file_of(request, device_)),
          cells_(cells_for(request, device_, kernel_file_)), json_(request.output, interrupts_),
          csv_(request.csv, interrupts_), memory_(request.memory, interrupts_), table_(cells_, request.sweep.baseline),
          workbench_(device_ == "gpu" ? bench::gpu_workbench(kernel_file_)
                                      : bench::cpu_workbench(request.sweep.common.threads)),
          frame_{std::move(argv), workbench_->machine_json()}, baseline_(request.sweep.baseline),
          progress_(request.quiet) {}

    ExitCode run() {
        say(table_.head());
        const bench::Report report = [&](const std::string& what) { progress_.report(what); };
        for (size_t i = 0; i < cells_.size(); ++i) {
            progress_.begin(i, cells_.size(), cells_[i]);
            Row row =
                bench::measure(cells_[i], *workbench_, kept_, request_.memory.empty() ? nullptr : &tracks_, report);
            progress_.clear();
            baseline_.compare(row);
            ending_.add(row.status(), row.reason());
            say(table_.line(row));
            write(row, i == 0);
        }
        for (GrowingFile* file : {&json_, &csv_, &memory_}) file->finish();
        if (const std::string why = ending_.why(); !why.empty()) std::fprintf(stderr, "%s: %s\n", kName, why.c_str());
        return ending_.code();
    }

private:
    void say(const std::string& text) const {
        if (request_.quiet) return;
        std::fputs(text.c_str(), lines_);
        std::fflush(lines_);
    }

    // Adds a row, after which every file is complete.
    void write(const Row& row, bool first) {
        const bool alone = cells_.size() == 1;
        if (first) {
            json_.begin(alone ? bench::cell_json(row, frame_) : bench::list_start(frame_) + bench::list_item(row, true),
                        alone ? "" : bench::kListEnd);
            csv_.begin(bench::csv_head() + bench::csv_of(row), "");
            memory_.begin(picture_.start(), picture_.end());
        } else {
            json_.add(bench::list_item(row, false));
            csv_.add(bench::csv_of(row));
        }
        std::string tracks;
        for (const bench::MemoryTrack& track : tracks_) tracks += picture_.next(track);
        memory_.add(tracks);
        tracks_.clear();
    }

    const bench::Request& request_;
    FILE* const lines_;
    InterruptGuard interrupts_{kName};
    std::string device_;
    const Hw4Kernel* kernel_file_;
    std::vector<Cell> cells_;
    GrowingFile json_;
    GrowingFile csv_;
    GrowingFile memory_;
    bench::MemoryPicture picture_;
    bench::TerminalTable table_;
    std::unique_ptr<bench::Workbench> workbench_;
    bench::Frame frame_;
    bench::KeptData kept_;
    bench::Baseline baseline_;
    CellProgress progress_;
    bench::Ending ending_;                   // from all cells
    std::vector<bench::MemoryTrack> tracks_; // for --memory, from the last cell
};

ExitCode run_accumulate(const bench::AccumulateRequest& request) {
    InterruptGuard interrupts;
    GrowingFile json(request.output, interrupts);
    const std::string device = usable_device(request.device, false);
    const bench::Addends addends;
    const std::vector<float> sums = device == "gpu" ? bench::gpu_sums(addends) : bench::cpu_sums(addends);
    json.begin(bench::accumulation_json(addends, sums, device), "");
    json.finish();
    FILE* const lines = is_standard_stream(request.output) ? stderr : stdout;
    std::fputs(bench::accumulation_table(addends, sums).c_str(), lines);
    return ExitCode::ok;
}

ExitCode run_start_up(const bench::StartUpRequest&) {
    bench::say_gpu_start_up();
    return ExitCode::ok;
}

// Executes a request: prints help or the version, or calls `run`.
template <class Request, class Run>
ExitCode act(const Request& request, std::string (*help)(), const Run& run) {
    if (request.action == Action::run) return run(request);
    std::fputs(request.action == Action::help ? help().c_str() : version_line().c_str(), stdout);
    return ExitCode::ok;
}

ExitCode command(int argc, char** argv) {
    const std::string first = argc > 1 ? argv[1] : "";
    if (first == "accumulate")
        return act(bench::parse_accumulate(argc - 1, argv + 1), bench::accumulate_help, run_accumulate);
    if (first == "start-up") return act(bench::parse_start_up(argc - 1, argv + 1), bench::start_up_help, run_start_up);
    return act(bench::parse_request(argc, argv), bench::help_text, [&](const bench::Request& request) {
        return Bench(request, {argv, argv + argc}).run();
    });
}

// Parses the arguments with `parse` on every rank; only the first one prints.
template <class Parse, class Run>
ExitCode on_ranks(int argc, char** argv, Ranks& ranks, const Parse& parse, std::string (*help)(), const Run& run) {
    decltype(parse(argc, argv)) request;
    agree(ranks, [&] { request = parse(argc - 1, argv + 1); });
    if (request.action != Action::run && !ranks.is_first()) return ExitCode::ok;
    return act(request, help, [&](const auto& to_run) { return run(to_run, {argv, argv + argc}, ranks); });
}

} // namespace

ExitCode run_bench(int argc, char** argv, Ranks& ranks) {
    const std::string first = argc > 1 ? argv[1] : "";
    const bool has_own_help = first == "accumulate" || first == "start-up" || first == "allreduce" || first == "step";
    const std::string name = "hw4 bench" + (has_own_help ? " " + first : "");
    const auto measured = [&] {
        if (first == "allreduce")
            return on_ranks(argc, argv, ranks, bench::parse_allreduce, bench::allreduce_help, run_allreduce);
        if (first == "step") return on_ranks(argc, argv, ranks, bench::parse_step, bench::step_help, run_step);
        agree(ranks, [&] {
            if (ranks.count() > 1) throw Error(ExitCode::usage, "bench is for one process, but for allreduce and step");
        });
        return command(argc, argv);
    };
    const ExitCode code = within_command(name, measured);
    agree(ranks, flush_standard_output);
    return code;
}

} // namespace hw4
