// Options -> cells -> rows, one after the other -> table and files, complete after each row.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/interrupt.h"
#include "src/base/standard_streams.h"
#include "src/bench/compare.h"
#include "src/bench/measure.h"
#include "src/bench/memory_timeline.h"
#include "src/bench/outcome.h"
#include "src/bench/row_json.h"
#include "src/bench/sweep.h"
#include "src/bench/tables.h"
#include "src/commands/bench_child.h"
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

constexpr const char* kName = "hw4 bench"; // in remarks

std::string read_text(const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    if (!file) throw Error(ExitCode::no_input, with_errno(name + ": cannot open"));
    try {
        std::string text{std::istreambuf_iterator<char>(file), {}};
        if (!file.bad()) return text;
    } catch (const std::ios_base::failure&) { // a folder
    }
    throw Error(ExitCode::io_error, with_errno(name + ": cannot read"));
}

bench::RowFile file_to_go_on_with(const bench::Request& request) {
    if (!request.resume || ::access(request.output.c_str(), F_OK) != 0) return {};
    return bench::read_file(read_text(request.output), request.output);
}

// Rows that stay. A line says that others do not.
std::vector<Row> rows_taken(const bench::RowFile& file, const bench::Frame& frame, const std::string& name) {
    std::vector<Row> rows;
    std::string why; // the first of the others is not taken
    size_t others = 0;
    for (const Row& row : file.rows) {
        const std::string reason = why_not_taken(row, file, frame);
        if (!reason.empty() && others++ == 0) why = reason;
        if (reason.empty()) rows.push_back(row);
    }
    if (others > 0)
        std::fprintf(stderr, "%s: %s: %zu of %zu rows are not taken: measured %s\n", kName, one_line(name).c_str(),
                     others, file.rows.size(), one_line(why).c_str());
    return rows;
}

// Throws Error (usage) where two outputs would be one file.
RunFiles files_of(const bench::Request& request) {
    RunFiles files;
    for (const std::string& path : {request.output, request.csv, request.memory})
        if (!path.empty()) files.add_output(path);
    return files;
}

// "gpu" or "cpu". Asking for a GPU makes its context.
std::string usable_device(Device asked, bool quiet) {
    if (asked == Device::cpu) return "cpu";
    const gpu::Unusable unusable = gpu::unusable();
    if (unusable.reason.empty()) return "gpu";
    if (asked == Device::gpu) throw Error(unusable.code, "no usable GPU: " + unusable.reason);
    if (!quiet) std::fprintf(stderr, "hw4 bench: using the CPU: %s\n", unusable.reason.c_str());
    return "cpu";
}

// Where each cell has a process of its own, that one asks.
std::string device_for(const bench::Request& request) {
    if (request.separate) return request.device == Device::gpu ? "gpu" : "cpu";
    return usable_device(request.device, request.quiet);
}

// The kernel of --kernel-file; null where none is asked for.
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

class Bench {
public:
    Bench(const bench::Request& request, std::vector<std::string> argv)
        : request_(request), lines_(files_of(request).has_standard_output() ? stderr : stdout),
          old_file_(file_to_go_on_with(request)), device_(device_for(request)),
          kernel_file_(kernel_file_of(request, device_)), cells_(cells_for(request, device_, kernel_file_)),
          json_(request.output, interrupts_), csv_(request.csv, interrupts_), memory_(request.memory, interrupts_),
          table_(cells_) {
        frame_.argv = std::move(argv);
        if (request.separate && device_ == "gpu") {
            frame_.machine = bench::said_by_child([&] {
                usable_device(Device::gpu, request.quiet);
                return workbench()->machine_json();
            });
        } else {
            workbench_ = workbench();
            frame_.machine = workbench_->machine_json();
        }
        old_rows_ = rows_taken(old_file_, frame_, request.output);
        const auto is_to_be_tried_again = [&](const Row& row) {
            return row.status() == Status::failed && std::find(cells_.begin(), cells_.end(), row.cell) != cells_.end();
        };
        old_rows_.erase(std::remove_if(old_rows_.begin(), old_rows_.end(), is_to_be_tried_again), old_rows_.end());
    }

    ExitCode run() {
        rows_ = old_rows_;
        say(table_.head());
        for (size_t i = 0; i < cells_.size(); ++i) {
            const std::optional<Row> old = old_row(cells_[i]);
            if (!old) announce(i);
            const Row row = old ? *old : measured(cells_[i]);
            ending_.add(row.status(), row.reason());
            say(table_.line(row));
            if (!old) write(row);
        }
        if (!begun_) begin_files();
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

    std::unique_ptr<bench::Workbench> workbench() const {
        return device_ == "gpu" ? bench::gpu_workbench(kernel_file_)
                                : bench::cpu_workbench(request_.sweep.common.threads);
    }

    // What is to come: [7/20] f32 B 8 H 1 N 4096 d 64
    void announce(size_t index) const {
        if (request_.quiet || cells_.size() == 1) return;
        std::fprintf(stderr, "[%zu/%zu] %s\n", index + 1, cells_.size(), words_of(cells_[index]).c_str());
    }

    std::optional<Row> old_row(const Cell& cell) const {
        for (const Row& row : old_rows_)
            if (row.cell == cell) return row;
        return std::nullopt;
    }

    Row measured(const Cell& cell) {
        if (const std::optional<Row> refusal = bench::refused(cell)) return *refusal;
        try {
            if (request_.separate)
                return bench::measure_in_child(cell, [&] { return bench::measure(cell, *workbench(), kept_); });
            return bench::measure(cell, *workbench_, kept_, request_.memory.empty() ? nullptr : &tracks_);
        } catch (const Error& error) { // no process for it
            return bench::row_without(cell, Status::failed, error.what());
        }
    }

    // A row more, after which every file is complete.
    void write(const Row& row) {
        rows_.push_back(row);
        if (!begun_) {
            begin_files();
        } else {
            json_.add(bench::list_item(row, false));
            csv_.add(bench::csv_of(row));
        }
        std::string tracks;
        for (const bench::MemoryTrack& track : tracks_) tracks += picture_.next(track);
        memory_.add(tracks);
        tracks_.clear();
    }

    // With the rows there are: those of --resume come before what is measured, whatever the order of the cells.
    void begin_files() {
        begun_ = true;
        const bool alone = cells_.size() == 1 && rows_.size() == 1;
        std::string json = alone ? bench::cell_json(rows_.front(), frame_) : bench::list_start(frame_);
        std::string csv = bench::csv_head();
        for (size_t i = 0; i < rows_.size(); ++i) {
            if (!alone) json += bench::list_item(rows_[i], i == 0);
            csv += bench::csv_of(rows_[i]);
        }
        json_.begin(json, alone ? "" : bench::kListEnd);
        csv_.begin(csv, "");
        memory_.begin(picture_.start(), picture_.end());
    }

    const bench::Request& request_;
    FILE* const lines_;
    InterruptGuard interrupts_{kName};
    bench::RowFile old_file_;   // of --resume
    std::vector<Row> old_rows_; // those of it that stay
    std::string device_;
    const Hw4Kernel* kernel_file_;
    std::vector<Cell> cells_;
    GrowingFile json_;
    GrowingFile csv_;
    GrowingFile memory_;
    bench::MemoryPicture picture_;
    bench::TerminalTable table_;
    bench::Frame frame_;
    std::unique_ptr<bench::Workbench> workbench_; // none where only processes of their own may take a GPU
    bench::KeptData kept_;
    std::vector<Row> rows_;                  // of the files
    bench::Ending ending_;                   // of the cells
    std::vector<bench::MemoryTrack> tracks_; // of --memory, of the last cell
    bool begun_ = false;                     // the files
};

ExitCode run_compare(const bench::CompareRequest& request) {
    const std::vector<Row> before = bench::read_file(read_text(request.before), request.before).rows;
    const std::vector<Row> after = bench::read_file(read_text(request.after), request.after).rows;
    const std::vector<bench::Compared> list = bench::compare(before, after, request.threshold);
    if (list.empty())
        throw Error(ExitCode::bad_data, request.before + " and " + request.after + " have no cell in common that ran");
    const std::string text = bench::comparison_text(list) +
                             bench::alone_text(bench::cells_without_match(before, after), request.before) +
                             bench::alone_text(bench::cells_without_match(after, before), request.after);
    std::fputs(text.c_str(), stdout);
    const auto is_loss = [](const bench::Compared& one) {
        return one.verdict == bench::Verdict::slower || one.verdict == bench::Verdict::lost;
    };
    return std::any_of(list.begin(), list.end(), is_loss) ? ExitCode::slower : ExitCode::ok;
}

ExitCode run_accumulate(const bench::AccumulateRequest& request) {
    InterruptGuard interrupts;
    GrowingFile json(request.output, interrupts);
    const std::string device = usable_device(request.device, false);
    const std::vector<float> sums =
        device == "gpu" ? bench::gpu_sums(request.addends) : bench::cpu_sums(request.addends);
    json.begin(bench::accumulation_json(request.addends, sums, device), "");
    json.finish();
    FILE* const lines = is_standard_stream(request.output) ? stderr : stdout;
    std::fputs(bench::accumulation_table(request.addends, sums).c_str(), lines);
    return ExitCode::ok;
}

ExitCode run_start_up(const bench::StartUpRequest&) {
    bench::say_gpu_start_up();
    return ExitCode::ok;
}

// What a request asks for: a word on the program, or `run`.
template <class Request, class Run>
ExitCode act(const Request& request, const Run& run) {
    if (request.action == Action::run) return run(request);
    std::fputs(request.action == Action::help ? bench::help_text().c_str() : version_line().c_str(), stdout);
    return ExitCode::ok;
}

ExitCode command(int argc, char** argv) {
    const std::string first = argc > 1 ? argv[1] : "";
    if (first == "compare") return act(bench::parse_compare(argc - 1, argv + 1), run_compare);
    if (first == "accumulate") return act(bench::parse_accumulate(argc - 1, argv + 1), run_accumulate);
    if (first == "start-up") return act(bench::parse_start_up(argc - 1, argv + 1), run_start_up);
    return act(bench::parse_request(argc, argv), [&](const bench::Request& request) {
        return Bench(request, {argv, argv + argc}).run();
    });
}

// What `parse` makes of the arguments, by every rank; the first one has the word.
template <class Parse, class Run>
ExitCode on_ranks(int argc, char** argv, Ranks& ranks, const Parse& parse, const Run& run) {
    decltype(parse(argc, argv)) request;
    agree(ranks, [&] { request = parse(argc - 1, argv + 1); });
    if (request.action != Action::run && !ranks.is_first()) return ExitCode::ok;
    return act(request, [&](const auto& to_run) { return run(to_run, {argv, argv + argc}, ranks); });
}

} // namespace

ExitCode run_bench(int argc, char** argv, Ranks& ranks) {
    const auto measured = [&] {
        const std::string first = argc > 1 ? argv[1] : "";
        if (first == "allreduce") return on_ranks(argc, argv, ranks, bench::parse_allreduce, run_allreduce);
        if (first == "gradients") return on_ranks(argc, argv, ranks, bench::parse_gradients, run_gradients);
        agree(ranks, [&] {
            if (ranks.count() > 1)
                throw Error(ExitCode::usage, "bench is for one process, but for allreduce and gradients");
        });
        return command(argc, argv);
    };
    const ExitCode code = measured();
    agree(ranks, flush_standard_output);
    return code;
}

} // namespace hw4
