#include "src/cpu/engine.h"

#include <cstring>
#include <new>

#include "src/base/error.h"
#include "src/base/parallel.h"
#include "src/cpu/aligned_memory.h"
#include "src/run/progress.h"

namespace hw4::cpu {
namespace {

constexpr size_t kLargeChunkBytes = size_t{64} << 20;

AlignedFloats chunk_buffer(const std::string& path, size_t floats) {
    try {
        return allocate_aligned(floats);
    } catch (const std::bad_alloc&) {
        throw Error(ExitCode::out_of_memory, path + ": one chunk of batches needs " +
                                                 std::to_string(floats * sizeof(float)) +
                                                 " bytes of host memory, which cannot be had");
    }
}

// A case that no kernel takes is the file's fault.
const Kernel& kernel_for(const EngineRequest& request, const std::vector<Kernel>& table) {
    try {
        return choose_kernel(request.options.kernel, request.problem, *request.options.contract, table);
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_data) throw;
        throw Error(ExitCode::bad_data, request.input + ": " + error.what());
    }
}

int64_t planned_batches(const EngineRequest& request) {
    return request.options.chunk_batches > 0 ? request.options.chunk_batches : chunk_batches_for(request.problem, 1);
}

// Two, so that one chunk's output is written while the next is computed; one where a chunk is large.
int slot_count(const Problem& problem, int64_t batches) {
    const auto chunk_bytes = static_cast<size_t>(batches) * problem.batch_input_bytes();
    return batches < problem.batches && chunk_bytes <= kLargeChunkBytes ? 2 : 1;
}

class CpuEngine : public Engine {
public:
    CpuEngine(const EngineRequest& request, const std::vector<Kernel>& table)
        : problem_(request.problem), kernel_(kernel_for(request, table)),
          threads_(request.options.threads > 0 ? request.options.threads : available_processors()),
          chunk_batches_(planned_batches(request)), pen_(request.pen),
          progress_("rows", static_cast<double>(problem_.output_rows())) {
        const auto chunk = static_cast<size_t>(chunk_batches_);
        for (int i = 0; i < slot_count(problem_, chunk_batches_); ++i)
            slots_.push_back({chunk_buffer(request.input, chunk * problem_.batch_input_floats()),
                              chunk_buffer(request.input, chunk * problem_.batch_output_floats())});
        const Plan plan = plan_of(kernel_, problem_.of_batches(chunk_batches_), threads_);
        if (plan.scratch_bytes > 0) scratch_ = chunk_buffer(request.input, plan.scratch_bytes / sizeof(float));
    }

    int slots() const override { return static_cast<int>(slots_.size()); }
    int64_t chunk_batches() const override { return chunk_batches_; }
    int slices() const override { return 1; }
    RowRange completes(int64_t batches, int) const override { return {0, batches * problem_.batch_output_rows()}; }

    void copy_in(const RowsIn& rows) override {
        const size_t bytes = static_cast<size_t>(rows.rows) * problem_.row_bytes();
        pen_.time(Stage::copy_in, bytes,
                  [&] { std::memcpy(slot(rows.slot).in.get() + rows.first_row * problem_.dim, rows.from, bytes); });
    }
    void wait_until_copied(int) override {}

    void compute(const Work& work) override {
        pen_.time(Stage::kernel, 0, [&] {
            Launch launch = launch_of(problem_.of_batches(work.batches), slot(work.slot).in.get(),
                                      slot(work.slot).out.get(), scratch_.get(), threads_);
            launch.done = [&](int64_t rows) { progress_.add(static_cast<double>(rows)); };
            kernel_.launch(kernel_, launch);
        });
    }

    const float* fetch(const RowsOut& rows) override {
        return slot(rows.slot).out.get() + rows.first_row * problem_.dim;
    }

    EngineFacts finish() override {
        EngineFacts facts;
        facts.device = "cpu";
        facts.device_name = std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
        facts.kernel = kernel_.name;
        facts.contract = kernel_.under;
        facts.threads = threads_;
        facts.chunk_batches = chunk_batches_;
        facts.queries_at_once = problem_.queries;
        return facts;
    }

private:
    struct Slot {
        AlignedFloats in; // of chunk_batches, as in the file
        AlignedFloats out;
    };
    const Slot& slot(int index) const { return slots_[static_cast<size_t>(index)]; }

    const Problem problem_;
    const Kernel& kernel_;
    const int threads_;
    const int64_t chunk_batches_;
    const Pen pen_;
    Progress progress_;
    std::vector<Slot> slots_;
    AlignedFloats scratch_; // of the chunk that is computed; none where the kernel needs nothing
};

} // namespace

std::vector<KernelInfo> kernel_list() {
    std::vector<KernelInfo> list;
    for (const Kernel& kernel : kernels())
        list.push_back({kernel.name, kernel.idea, kernel.does, kernel.under,
                        kernel.needs.processor() ? "" : "not on this processor"});
    return list;
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request, const std::vector<Kernel>& table) {
    return std::make_unique<CpuEngine>(request, table);
}

} // namespace hw4::cpu
