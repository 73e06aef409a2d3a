// The GPU engine: a stream for each slot, for copying a chunk in and computing it, and one for each writer, for copying
// output out; the chunks of different slots overlap.
#include "src/gpu/engine.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/gpu/device/check.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/device/stream_work.h"
#include "src/gpu/kernels.h"
#include "src/gpu/slot_plan.h"
#include "src/problem/problem.h"

namespace hw4::gpu {
namespace {

// The layout of a chunk in its slot: rows as in the file, first the input's, then the output's, then the statistics of
// the output's rows if they are wanted, then the lengths of the batches if there are any.
class SlotLayout {
public:
    SlotLayout(const Problem& problem, Copies copies, int64_t batches, bool statistics)
        : copies_(copies), element_(problem.element), row_bytes_(problem.stored_row_bytes()),
          pitch_bytes_(row_pitch(problem, copies)),
          input_rows_(aligned(static_cast<size_t>(batches * problem.batch_input_rows()))),
          output_rows_(aligned(static_cast<size_t>(batches * problem.batch_output_rows()))),
          statistics_bytes_(output_rows_ * bytes_beside_output(statistics)),
          length_bytes_(problem.by_lengths ? static_cast<size_t>(batches) * sizeof(int32_t) : 0) {}

    size_t bytes() const {
        const size_t all = (input_rows_ + output_rows_) * pitch_bytes_ + statistics_bytes_ + length_bytes_;
        return (all + kBoundary - 1) / kBoundary * kBoundary;
    }

    // Elements from one row to the next.
    size_t stride() const { return pitch_bytes_ / bytes_of(element_); }

    // In a slot that begins at `slot`.
    void* input(void* slot) const { return rows_in(slot).row(0); }
    void* output(void* slot) const { return rows_in(slot).row(input_rows_); }
    // Null if statistics are not wanted.
    RowStatistics* statistics(void* slot) const {
        if (statistics_bytes_ == 0) return nullptr;
        return static_cast<RowStatistics*>(rows_in(slot).row(input_rows_ + output_rows_));
    }

    // Behind everything else. Null if all batches have all keys.
    int32_t* lengths(void* slot) const {
        if (length_bytes_ == 0) return nullptr;
        auto* const rows_end = static_cast<unsigned char*>(rows_in(slot).row(input_rows_ + output_rows_));
        return reinterpret_cast<int32_t*>(rows_end + statistics_bytes_);
    }

    void copy_in(void* slot, int64_t first_row, int64_t rows, const void* from, cudaStream_t stream) const {
        rows_in(slot).copy_in(from, static_cast<size_t>(rows), stream, static_cast<size_t>(first_row));
    }
    void copy_out(void* slot, int64_t first_row, int64_t rows, void* to, cudaStream_t stream) const {
        rows_in(slot).copy_out(to, static_cast<size_t>(rows), stream, input_rows_ + static_cast<size_t>(first_row));
    }
    void copy_statistics_out(void* slot, int64_t first_row, int64_t rows, RowStatistics* to,
                             cudaStream_t stream) const {
        HW4_CUDA(cudaMemcpyAsync(to, statistics(slot) + first_row, static_cast<size_t>(rows) * sizeof(RowStatistics),
                                 cudaMemcpyDeviceToHost, stream));
    }

private:
    static constexpr size_t kBoundary = 16; // bytes; kernels need matrices to start at multiples of it

    // Rounds a number of packed rows up so that they end at a boundary.
    size_t aligned(size_t rows) const {
        const size_t together = kBoundary / bytes_of(element_);
        return (rows + together - 1) / together * together;
    }

    PitchedRows rows_in(void* slot) const { return PitchedRows(slot, row_bytes_, pitch_bytes_, copies_); }

    Copies copies_;
    Element element_;
    size_t row_bytes_;
    size_t pitch_bytes_;
    size_t input_rows_;
    size_t output_rows_;
    size_t statistics_bytes_;
    size_t length_bytes_;
};

// The simplest kernel of the contract; its reason to refuse a problem is reported. Null if this build has none.
const Kernel* first_kernel(const Operation& operation, const Contract& contract) {
    const std::vector<Kernel> list = kernels_of(contract, operation);
    return list.empty() ? nullptr : find_kernel(list.front().name);
}

std::string unsupported_reason_on(const Device& device, const Problem& problem, const std::string& name,
                                  const Contract& contract) {
    if (name.empty() && choose_kernel(problem, device, contract) != nullptr) return "";
    const Kernel* kernel = name.empty() ? first_kernel(whole_of(*problem.operation), contract) : find_kernel(name);
    if (kernel != nullptr) return plan_of(*kernel, problem, device).why_not;
    return name.empty()
               ? "no GPU kernel of this build computes " + std::string(contract.name) + " " + problem.operation->name
               : "there is no kernel '" + name + "'";
}

// The kernel of a run; `launch` is its largest launch.
Kernel kernel_for(const EngineRequest& request, const Problem& launch, const Device& device) {
    const std::string& name = request.options.kernel;
    const Contract& contract = *request.options.contract;
    const Hw4Kernel* const file = request.options.kernel_file;
    const std::string unsupported = file != nullptr ? plan_of(kernel_of_file(*file), launch, device).why_not
                                                    : unsupported_reason_on(device, launch, name, contract);
    if (!unsupported.empty()) throw Error(ExitCode::bad_data, request.input + ": " + unsupported);
    Kernel kernel = file != nullptr ? kernel_of_file(*file)
                    : name.empty()  ? *choose_kernel(launch, device, contract)
                                    : *find_kernel(name);
    refuse_other_contract(kernel.name, *kernel.under, contract);
    return kernel;
}

// How a case is cut into launches, which kernel computes it, and its layout in memory: all this follows from the number
// of batches in a slot.
struct CasePlan {
    // `spare`: with streams for cases that may follow.
    CasePlan(const EngineRequest& request, const Device& device, const SlotPlan& plan, bool spare,
             size_t scratch_budget)
        : problem(request.problem), slots(plan),
          layout(problem, request.options.copies, plan.batches, request.options.statistics),
          queries_at_once(plan_queries(problem, request.options, plan.batches)),
          streams(spare || queries_at_once < problem.queries ? request.options.streams : plan.slots),
          launch(launch_problem(problem, plan.batches, queries_at_once)), kernel(kernel_for(request, launch, device)) {
        const Plan needs = plan_of(kernel, launch, device);
        least_scratch = needs.scratch_bytes;
        scratch_bytes = scratch_for(least_scratch, needs.most_scratch, scratch_budget, streams);
    }

    int slices() const { return static_cast<int>((problem.queries + queries_at_once - 1) / queries_at_once); }
    // The slice that completes that row of a slot's output.
    int slice_of(int64_t row) const { return slices() == 1 ? 0 : static_cast<int>(row / queries_at_once); }
    size_t bytes_of(int64_t rows) const { return static_cast<size_t>(rows) * problem.stored_row_bytes(); }

    Problem problem;
    SlotPlan slots;
    SlotLayout layout;
    int64_t queries_at_once; // of a batch
    int streams;             // one for each slot; as many as options.streams with spare ones, or if batches are split
    Problem launch;          // the largest
    Kernel kernel;
    size_t least_scratch; // for a launch
    size_t scratch_bytes; // for each launch
};

[[noreturn]] void fail_out_of_memory(const EngineRequest& request, const CasePlan& plan, const Error& error) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    HW4_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const EngineOptions& options = request.options;
    const size_t device_bytes =
        device_bytes_per_batch(request.problem, options.copies, options.statistics) + plan.scratch_bytes;
    throw Error(ExitCode::out_of_memory, "one batch needs about " + std::to_string(device_bytes) +
                                             " bytes on the GPU, which has " + std::to_string(free_bytes) +
                                             " free: " + error.what());
}

// All memory of a run on the GPU.
class DeviceMemory {
public:
    // Memory for a case: as many slots as planned. If there is not enough memory: less scratch memory, then no spare
    // streams, then smaller slots, then fewer. `synchronize` is called before any memory is replaced.
    std::shared_ptr<const CasePlan> make(const EngineRequest& request, const Device& device,
                                         const std::function<void()>& synchronize) {
        bool spare = request.more_follow;
        size_t scratch_budget = request.options.scratch_budget;
        for (SlotPlan slots = plan_slots(request.problem, request.options);;) {
            auto plan = std::make_shared<const CasePlan>(request, device, slots, spare, scratch_budget);
            try {
                make(*plan, slot_count(*plan, request, spare), synchronize);
                return plan;
            } catch (const Error& error) {
                if (error.code() != ExitCode::out_of_memory) throw;
                slots_.clear();
                scratch_.clear();
                if (plan->scratch_bytes > plan->least_scratch) {
                    scratch_budget =
                        static_cast<size_t>(plan->streams) * smaller_scratch(plan->scratch_bytes, plan->least_scratch);
                    continue;
                }
                if (!spare && slots == kSmallestPlan) fail_out_of_memory(request, *plan, error);
                if (!spare) slots = smaller(slots);
                spare = false;
            }
        }
    }

    int slots() const { return slots_.parts(); }
    void* slot(int index) const { return slots_.part(index); }
    // The kernel's scratch memory, separate for each stream.
    void* scratch(int stream) const { return scratch_.part(stream); }
    size_t bytes() const { return slots_.bytes() + scratch_.bytes(); }

private:
    // If other cases follow, a slot for each stream, so that they need not wait for one another.
    static int slot_count(const CasePlan& plan, const EngineRequest& request, bool spare) {
        return spare && plan.layout.bytes() <= kSlotDeviceBytes ? request.options.streams : plan.slots.slots;
    }

    void make(const CasePlan& plan, int slots, const std::function<void()>& synchronize) {
        const bool in_place = slots_.holds(slots, plan.layout.bytes());
        const bool scratch_in_place = scratch_.holds(plan.streams, plan.scratch_bytes);
        if (!in_place || !scratch_in_place) synchronize();
        if (!in_place) slots_.make(slots, plan.layout.bytes());
        if (!scratch_in_place) scratch_.make(plan.streams, plan.scratch_bytes);
    }

    Arena slots_;
    Arena scratch_;
};

// "CUDA 13.0"
std::string cuda_version() {
    return "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
}

// " sm_80 sm_90 compute_90"
std::string arch_list() {
    const BuiltFor built = built_for();
    std::string list;
    for (const int arch : built.archs) list += " sm_" + std::to_string(arch);
    return list + " compute_" + std::to_string(built.ptx);
}

// Before there is a context, no call has an error of its own: any error means that the GPU cannot be used. But a GPU
// that is full of other processes' memory is a temporary state; some drivers report it as busy.
Unusable without_context(cudaError_t status) {
    const std::string reason = cudaGetErrorString(status);
    if (status == cudaErrorMemoryAllocation) return {reason, ExitCode::out_of_memory};
    if (status == cudaErrorDevicesUnavailable)
        return {reason + ": its memory is taken, or another program has it to itself", ExitCode::out_of_memory};
    return {reason, ExitCode::no_gpu};
}

class GpuEngine final : public Engine {
public:
    explicit GpuEngine(const EngineRequest& request)
        : request_(request), card_(card_in_use()), device_(current_device()),
          pinned_(recorder().time(Stage::pin, request.staging_bytes,
                                  [&] { return pin(request.staging, request.staging_bytes); })),
          streams_(make_streams(request.options.streams)), out_streams_(make_streams(request.writers)),
          plan_(make_memory([] {})), times_(request.timeline, used_streams(), request.writers),
          copies_in_(static_cast<size_t>(request.ring_buffers)) {
        make_chunks();
        for (int writer = 0; writer < request.writers; ++writer) copies_out_.emplace_back(times_.wanted());
        load_kernel();
    }

    // If a run fails, the memory must not be freed while chunks are in flight.
    ~GpuEngine() override {
        for (const Stream& stream : streams_) HW4_CUDA_NOEXCEPT(cudaStreamSynchronize(stream.get()));
        for (const Stream& stream : out_streams_) HW4_CUDA_NOEXCEPT(cudaStreamSynchronize(stream.get()));
    }

    void begin(const std::string& input, const Problem& problem, const std::function<void()>& all_fetched) override {
        request_.input = input;
        request_.problem = problem;
        plan_ = make_memory([&] {
            all_fetched();
            synchronize();
        });
        make_chunks();
        load_kernel();
    }

    int slots() const override { return memory_.slots(); }
    int64_t chunk_batches() const override { return plan_->slots.batches; }
    int slices() const override { return plan_->slices(); }
    RowRange completes(int64_t batches, int slice) const override {
        if (slices() == 1) return {0, batches * problem().batch_output_rows()};
        const int64_t first = slice * plan_->queries_at_once;
        return {first, std::min(plan_->queries_at_once, problem().queries - first)};
    }

    void copy_in(const RowsIn& rows) override {
        if (rows.first_row == 0) wait_for_other_streams(rows.slot);
        TimedWork& copy =
            copies_in_[static_cast<size_t>(rows.buffer)].add(rows.slot, plan_->bytes_of(rows.rows), times_.wanted());
        copy.begin(stream(rows.slot));
        plan_->layout.copy_in(memory_.slot(rows.slot), rows.first_row, rows.rows, rows.from, stream(rows.slot));
        copy.end(stream(rows.slot));
    }

    void wait_until_copied(int buffer) override {
        use_card();
        copies_in_[static_cast<size_t>(buffer)].settle(Stage::copy_in, times_);
    }

    void compute(const Work& work) override {
        ChunkOfSlot& chunk = chunk_of(work.slot);
        const int turn = stream_of(work.slot, work.slice);
        if (work.slice == 0) {
            note_kernels(work.slot);
            chunk.begin(plan_, times_.wanted());
        }
        if (turn != work.slot) HW4_CUDA(cudaStreamWaitEvent(stream(turn), chunk.copied_in.get()));
        TimedWork& timed = chunk.of(work.slice);
        timed.begin(stream(turn));
        if (work.slice == 0) // slice 0 uses the slot's own stream
            HW4_CUDA(cudaEventRecord(chunk.copied_in.get(), stream(work.slot)));
        if (work.lengths != nullptr)
            HW4_CUDA(cudaMemcpyAsync(plan_->layout.lengths(memory_.slot(work.slot)), work.lengths,
                                     static_cast<size_t>(work.batches) * sizeof work.lengths[0], cudaMemcpyHostToDevice,
                                     stream(turn)));
        launch(work, turn, stream(turn));
        timed.end(stream(turn));
        ++chunk.computed;
    }

    // The copy is in the writer's own stream: the slot's stream may have more to compute by now.
    const void* fetch(const RowsOut& rows) override {
        use_card();
        cudaStream_t out = out_streams_[static_cast<size_t>(rows.writer)].get();
        ChunkOfSlot& chunk = chunk_of(rows.slot);
        const CasePlan& plan = *chunk.plan; // plan_ may belong to another case by now
        const int last_slice = plan.slice_of(rows.first_row + rows.rows - 1);
        HW4_CUDA(cudaStreamWaitEvent(out, chunk.of(last_slice).done()));
        TimedWork& copy = copies_out_[static_cast<size_t>(rows.writer)];
        copy.begin(out);
        plan.layout.copy_out(memory_.slot(rows.slot), rows.first_row, rows.rows, rows.staging, out);
        if (rows.statistics != nullptr)
            plan.layout.copy_statistics_out(memory_.slot(rows.slot), rows.first_row, rows.rows, rows.statistics, out);
        copy.end(out);
        copy.wait();
        const size_t beside = static_cast<size_t>(rows.rows) * bytes_beside_output(rows.statistics != nullptr);
        times_.add(copy, static_cast<int>(streams_.size()) + rows.writer, Stage::copy_out,
                   plan.bytes_of(rows.rows) + beside);
        return rows.staging;
    }

    EngineFacts facts() override {
        if (device_name_.empty() && times_.wanted()) device_name_ = device_name(); // the query is slow
        EngineFacts facts;
        facts.device = "gpu";
        facts.device_name = device_name_;
        facts.kernel = plan_->kernel.name;
        facts.contract = plan_->kernel.under;
        facts.streams = static_cast<int>(streams_.size());
        facts.copies = name_of(request_.options.copies);
        facts.chunk_batches = chunk_batches();
        facts.queries_at_once = plan_->queries_at_once;
        facts.device_bytes = memory_.bytes();
        return facts;
    }

    void finish() override {
        for (TimedWorks& copies : copies_in_) copies.settle(Stage::copy_in, times_);
        note_all_kernels();
    }

private:
    // The state of the chunk in a slot.
    struct ChunkOfSlot {
        ChunkOfSlot() : copied_in(make_event(cudaEventDisableTiming)) {}

        void begin(std::shared_ptr<const CasePlan> of_case, bool timed) {
            plan = std::move(of_case);
            while (kernels.size() < static_cast<size_t>(plan->slices())) kernels.emplace_back(timed);
        }
        TimedWork& of(int slice) { return kernels[static_cast<size_t>(slice)]; }

        std::shared_ptr<const CasePlan> plan;
        Event copied_in;
        std::vector<TimedWork> kernels; // by slice
        int computed = 0;               // slices with times not yet added
    };

    // Other threads call it: a new thread uses GPU 0.
    void use_card() const {
        if (card_ != 0) HW4_CUDA(cudaSetDevice(card_));
    }

    // Destroys the streams that no case needs.
    int used_streams() {
        if (!request_.more_follow) streams_.resize(static_cast<size_t>(plan_->streams));
        return static_cast<int>(streams_.size());
    }

    static std::vector<Stream> make_streams(int count) {
        std::vector<Stream> made;
        for (int i = 0; i < count; ++i) made.push_back(make_stream());
        return made;
    }

    std::shared_ptr<const CasePlan> make_memory(const std::function<void()>& before_it_moves) {
        return recorder().time(Stage::allocate, 0, [&] { return memory_.make(request_, device_, before_it_moves); });
    }
    void make_chunks() {
        while (chunks_.size() < static_cast<size_t>(slots())) chunks_.emplace_back();
    }

    const Problem& problem() const { return request_.problem; }
    const SpanRecorder& recorder() const { return request_.recorder; }
    // Slices of a batch use the streams in turn, so that one fills the multiprocessors that another leaves idle.
    int stream_of(int slot, int slice) const { return (slot + slice) % static_cast<int>(streams_.size()); }
    cudaStream_t stream(int index) const { return streams_[static_cast<size_t>(index)].get(); }
    ChunkOfSlot& chunk_of(int slot) { return chunks_[static_cast<size_t>(slot)]; }

    // Called before a slot's input is overwritten: slices of the previous chunk may still run in other streams.
    void wait_for_other_streams(int slot) {
        for (int slice = 0; slice < chunk_of(slot).computed; ++slice)
            if (stream_of(slot, slice) != slot)
                HW4_CUDA(cudaStreamWaitEvent(stream(slot), chunk_of(slot).of(slice).done()));
    }

    // Adds the times of the previous chunk to the timeline. Its kernels are done if its output was fetched; the kernels
    // of a failed case may not be.
    void note_kernels(int slot) {
        ChunkOfSlot& chunk = chunk_of(slot);
        for (int slice = 0; slice < chunk.computed && times_.wanted(); ++slice) {
            chunk.of(slice).wait();
            times_.add(chunk.of(slice), stream_of(slot, slice), Stage::kernel, 0);
        }
        chunk.computed = 0;
    }
    void note_all_kernels() {
        for (size_t slot = 0; slot < chunks_.size(); ++slot) note_kernels(static_cast<int>(slot));
    }

    // Waits until no stream uses the memory, after all output was fetched.
    void synchronize() {
        for (const Stream& stream : streams_) HW4_CUDA(cudaStreamSynchronize(stream.get()));
        note_all_kernels();
    }

    // Loads the kernel's code while the first rows are being copied, so that the first launch only computes.
    void load_kernel() {
        const Work largest = {0, plan_->launch.batches, 0};
        recorder().time(Stage::load, 0,
                        [&] { load_code_of([&](cudaStream_t recording) { launch(largest, 0, recording); }); });
    }

    // Uses the scratch memory of stream `turn`.
    void launch(const Work& work, int turn, cudaStream_t in) {
        const SlotLayout& layout = plan_->layout;
        void* const slot = memory_.slot(work.slot);
        Launch launch = launch_of(problem().of_batches(work.batches), device_, layout.input(slot), layout.stride(),
                                  layout.output(slot), layout.stride(), memory_.scratch(turn), plan_->scratch_bytes);
        launch.statistics = layout.statistics(slot);
        launch.lengths = layout.lengths(slot);
        launch.first_query = work.slice * plan_->queries_at_once;
        launch.end_query = launch.first_query + plan_->queries_at_once;
        plan_->kernel.launch(launch, in);
    }

    EngineRequest request_; // with the case that is being computed
    const int card_;        // the GPU of the thread that feeds the engine
    const Device device_;
    const Pinned pinned_;
    std::vector<Stream> streams_;           // made before the slots, which may leave no memory for streams
    const std::vector<Stream> out_streams_; // by writer
    DeviceMemory memory_;
    std::shared_ptr<const CasePlan> plan_; // of the case that is being computed
    StreamTimes times_;
    std::vector<TimedWorks> copies_in_; // by staging buffer
    std::vector<ChunkOfSlot> chunks_;   // by slot
    std::vector<TimedWork> copies_out_; // by writer
    std::string device_name_;
};

} // namespace

std::vector<KernelInfo> kernel_list() {
    std::vector<KernelInfo> list;
    for (const Kernel& kernel : kernels()) list.push_back({kernel.name, kernel.idea, kernel.does, kernel.under, ""});
    return list;
}

std::string build_description() { return cuda_version() + " for" + arch_list(); }

Unusable unusable(const SpanRecorder& recorder, int card) {
    const auto none = [](const std::string& reason) { return Unusable{reason, ExitCode::no_gpu}; };
    int count = 0;
    const cudaError_t status =
        recorder.time(Stage::driver, 0, [&] { return HW4_CUDA_STATUS(cudaGetDeviceCount(&count)); });
    if (status == cudaErrorInsufficientDriver)
        return none("there is no NVIDIA driver here, or it is too old for " + cuda_version());
    if (status != cudaSuccess) return without_context(status);
    if (count == 0) return none("no CUDA device");
    // Either call creates the context, from CUDA 12 on the first one. It fails if the GPU is there but taken, full or
    // broken. A thread has GPU 0 by default.
    const cudaError_t context = recorder.time(Stage::context, 0, [&] {
        const cudaError_t set = card % count == 0 ? cudaSuccess : HW4_CUDA_STATUS(cudaSetDevice(card % count));
        return set == cudaSuccess ? HW4_CUDA_STATUS(cudaFree(nullptr)) : set;
    });
    if (context != cudaSuccess) return without_context(context);
    const int arch = card_arch();
    if (code_arch(arch, built_for()) > 0) return none("");
    return none(device_name() + " is sm_" + std::to_string(arch) + ", this build has" + arch_list() +
                "; make ARCHS=" + std::to_string(arch) + " makes one for it");
}

int card_count() {
    int count = 0;
    return HW4_CUDA_STATUS(cudaGetDeviceCount(&count)) == cudaSuccess ? count : 0;
}

std::string unsupported_reason(const Problem& problem, const std::string& name, const Contract& contract) {
    return unsupported_reason_on(current_device(), problem.of_batches(1), name, contract); // one batch must fit
}

std::string unsupported_reason(const Problem& problem, const Hw4Kernel& file) {
    return plan_of(kernel_of_file(file), problem.of_batches(1), current_device()).why_not;
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request) { return std::make_unique<GpuEngine>(request); }

} // namespace hw4::gpu
