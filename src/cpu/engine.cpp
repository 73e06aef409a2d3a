#include "src/cpu/engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>

#include "src/base/error.h"
#include "src/base/parallel.h"
#include "src/cpu/aligned_memory.h"

namespace hw4::cpu {
namespace {

constexpr size_t kLargeChunkBytes = size_t{64} << 20;

AlignedMemory chunk_buffer(const std::string& path, size_t bytes) {
    try {
        return allocate_bytes(bytes);
    } catch (const std::bad_alloc&) {
        throw Error(ExitCode::out_of_memory, path + ": one chunk of batches needs " + std::to_string(bytes) +
                                                 " bytes of host memory, which cannot be had");
    }
}

// If no kernel takes the case, the file is to blame.
const Kernel& kernel_for(const EngineRequest& request) {
    try {
        return choose_kernel(request.options.kernel, request.problem, *request.options.contract);
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_data) throw;
        throw Error(ExitCode::bad_data, request.input + ": " + error.what());
    }
}

int64_t planned_batches(const EngineRequest& request) {
    return request.options.chunk_batches > 0 ? request.options.chunk_batches : chunk_batches_for(request.problem, 1);
}

// Two, so that one chunk's output is written while the next is computed, also that of another case; one if a chunk is
// large.
int slot_count(const EngineRequest& request, int64_t batches) {
    const Problem& problem = request.problem;
    const auto chunk_bytes = static_cast<size_t>(batches) * problem.batch_input_bytes();
    const bool next_one = batches < problem.batches || request.more_follow;
    return next_one && chunk_bytes <= kLargeChunkBytes ? 2 : 1;
}

// A progress line on stderr for long runs; silent unless stderr is a terminal.
class Progress {
public:
    Progress(const char* unit, double total) : unit_(unit), total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}
    ~Progress() {
        if (shown_) std::fputs("\r\033[K", stderr);
    }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // May be called by several threads.
    void add(double amount) {
        if (!terminal_) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        done_ += amount;
        const auto now = Clock::now();
        const double elapsed = std::chrono::duration<double>(now - start_).count();
        if (elapsed < 1.0 || done_ <= 0 || now - last_shown_ < std::chrono::milliseconds(200)) return;
        last_shown_ = now;
        shown_ = true;
        std::fprintf(stderr, "\r\033[K%.0f %%, %.0f of %.0f %s, %.0f s left", 100 * done_ / total_, done_, total_,
                     unit_, elapsed * (total_ - done_) / done_);
        std::fflush(stderr);
    }

private:
    using Clock = std::chrono::steady_clock;
    const char* unit_;
    double total_;
    bool terminal_;
    bool shown_ = false;
    double done_ = 0;
    Clock::time_point start_ = Clock::now();
    Clock::time_point last_shown_;
    std::mutex mutex_;
};

// Memory that is kept from case to case and replaced when a case needs more.
class Workspace {
public:
    bool holds(size_t bytes) const { return bytes <= bytes_; }
    void make(const std::string& path, size_t bytes) {
        if (holds(bytes)) return;
        bytes_ = 0;
        memory_.reset(); // frees the old block first: there may not be enough memory for both
        memory_ = chunk_buffer(path, bytes);
        bytes_ = bytes;
    }
    unsigned char* get() const { return static_cast<unsigned char*>(memory_.get()); }

private:
    AlignedMemory memory_;
    size_t bytes_ = 0;
};

class CpuEngine : public Engine {
public:
    explicit CpuEngine(const EngineRequest& request)
        : request_(request), threads_(request.options.threads > 0 ? request.options.threads : available_processors()) {
        plan([] {});
    }

    void begin(const std::string& input, const Problem& problem, const std::function<void()>& all_fetched) override {
        request_.input = input;
        request_.problem = problem;
        plan(all_fetched);
    }

    int slots() const override { return slot_count_; }
    int64_t chunk_batches() const override { return chunk_batches_; }
    int slices() const override { return 1; }
    RowRange completes(int64_t batches, int) const override { return {0, batches * problem().batch_output_rows()}; }

    void copy_in(const RowsIn& rows) override {
        const size_t row_bytes = problem().stored_row_bytes();
        const size_t bytes = static_cast<size_t>(rows.rows) * row_bytes;
        recorder().time(Stage::copy_in, bytes, [&] {
            std::memcpy(slot(rows.slot).in.get() + static_cast<size_t>(rows.first_row) * row_bytes, rows.from, bytes);
        });
    }
    void wait_until_copied(int) override {}

    void compute(const Work& work) override {
        slot(work.slot).row_bytes = problem().stored_row_bytes();
        recorder().time(Stage::kernel, 0, [&] {
            Launch launch = launch_of(problem().of_batches(work.batches), slot(work.slot).in.get(),
                                      slot(work.slot).out.get(), scratch_.get(), threads_);
            launch.crew = &crew_;
            launch.lengths = work.lengths;
            launch.statistics = slot(work.slot).row_statistics();
            launch.done = [&](int64_t rows) { progress_->add(static_cast<double>(rows)); };
            kernel_->launch(launch);
        });
    }

    const void* fetch(const RowsOut& rows) override {
        if (rows.statistics != nullptr)
            std::copy_n(slot(rows.slot).row_statistics() + rows.first_row, rows.rows, rows.statistics);
        return slot(rows.slot).out.get() + static_cast<size_t>(rows.first_row) * slot(rows.slot).row_bytes;
    }

    EngineFacts facts() override {
        EngineFacts facts;
        facts.device = "cpu";
        facts.device_name = std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
        facts.kernel = kernel_->name;
        facts.contract = kernel_->under;
        facts.threads = threads_;
        facts.chunk_batches = chunk_batches_;
        facts.queries_at_once = problem().queries;
        return facts;
    }
    void finish() override {}

private:
    struct Slot {
        Workspace in; // of chunk_batches, with the layout of the file
        Workspace out;
        Workspace statistics; // of the rows in `out`; none if they are not wanted
        size_t row_bytes = 0; // of these rows, which may be of the previous case

        RowStatistics* row_statistics() const { return reinterpret_cast<RowStatistics*>(statistics.get()); }
    };
    Slot& slot(int index) { return slots_[static_cast<size_t>(index)]; }
    const Problem& problem() const { return request_.problem; }
    const SpanRecorder& recorder() const { return request_.recorder; }

    void plan(const std::function<void()>& all_fetched) {
        kernel_ = &kernel_for(request_);
        chunk_batches_ = planned_batches(request_);
        progress_.emplace("rows", static_cast<double>(problem().output_rows()));
        make_slots(slot_count(request_, chunk_batches_), all_fetched);
        const Plan plan = plan_of(*kernel_, problem().of_batches(chunk_batches_), threads_);
        scratch_.make(request_.input, plan.scratch_bytes);
    }

    void make_slots(int count, const std::function<void()>& all_fetched) {
        const Problem chunk = problem().of_batches(chunk_batches_);
        const size_t in_bytes = chunk.stored_input_bytes();
        const size_t out_bytes = chunk.stored_output_bytes();
        const size_t statistics_bytes =
            request_.options.statistics ? static_cast<size_t>(chunk.output_rows()) * sizeof(RowStatistics) : 0;
        bool as_they_are = count == slot_count_;
        for (int i = 0; i < count && as_they_are; ++i)
            as_they_are = slot(i).in.holds(in_bytes) && slot(i).out.holds(out_bytes) &&
                          slot(i).statistics.holds(statistics_bytes);
        if (as_they_are) return;
        all_fetched();
        slot_count_ = count;
        if (slots_.size() < static_cast<size_t>(count)) slots_.resize(static_cast<size_t>(count));
        for (int i = 0; i < count; ++i) {
            slot(i).in.make(request_.input, in_bytes);
            slot(i).out.make(request_.input, out_bytes);
            slot(i).statistics.make(request_.input, statistics_bytes);
        }
    }

    EngineRequest request_; // with the case that is being computed
    const int threads_;
    Crew crew_; // for all chunks
    const Kernel* kernel_ = nullptr;
    int64_t chunk_batches_ = 0;
    std::optional<Progress> progress_;
    int slot_count_ = 0;
    std::vector<Slot> slots_; // and possibly more, from another case
    Workspace scratch_;       // of the chunk that is being computed; none if no kernel has needed any
};

} // namespace

std::vector<KernelInfo> kernel_list() {
    std::vector<KernelInfo> list;
    for (const Kernel& kernel : kernels())
        list.push_back({kernel.name, kernel.idea, kernel.does, kernel.under,
                        kernel.needs.processor() ? "" : "not on this processor"});
    return list;
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request) { return std::make_unique<CpuEngine>(request); }

} // namespace hw4::cpu
