// The GPU engine: a stream for each slot, in which a chunk is copied in and computed, and one for each writer, in which
// output is copied out; the chunks of different slots overlap.
#include "src/gpu/engine.h"

#include <algorithm>
#include <vector>

#include "src/base/error.h"
#include "src/gpu/device/check.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/device/stream_work.h"
#include "src/gpu/kernels.h"
#include "src/gpu/slot_plan.h"
#include "src/gpu/slots.h"

namespace hw4::gpu {
namespace {

// The plainest kernel of the contract, which says why no other can either; null when this build has none.
const Kernel* first_kernel(const Operation& operation, const Contract& contract) {
    const std::vector<Kernel> list = kernels_of(contract, operation);
    return list.empty() ? nullptr : find_kernel(list.front().name);
}

std::string unsupported_reason_on(const Device& device, const Problem& problem, const std::string& name,
                                  const Contract& contract) {
    if (name.empty() && choose_kernel(problem, device, contract) != nullptr) return "";
    const Kernel* kernel = name.empty() ? first_kernel(*problem.operation, contract) : find_kernel(name);
    if (kernel != nullptr) return plan_of(*kernel, problem, device).why_not;
    return name.empty()
               ? "no GPU kernel of this build computes " + std::string(contract.name) + " " + problem.operation->name
               : "there is no kernel '" + name + "'";
}

// The kernel of a run whose largest launch is `launch`.
const Kernel& kernel_for(const EngineRequest& request, const Problem& launch, const Device& device) {
    const std::string& name = request.options.kernel;
    const Contract& contract = *request.options.contract;
    const std::string unsupported = unsupported_reason_on(device, launch, name, contract);
    if (!unsupported.empty()) throw Error(ExitCode::bad_data, request.input + ": " + unsupported);
    const Kernel& kernel = name.empty() ? *choose_kernel(launch, device, contract) : *find_kernel(name);
    refuse_other_contract(name, *kernel.under, contract);
    return kernel;
}

// The kernel's scratch memory, for each stream its own.
class StreamScratch {
public:
    StreamScratch(size_t launch_bytes, int streams)
        : stream_bytes_((launch_bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment),
          bytes_(static_cast<size_t>(streams) * stream_bytes_), memory_(make_scratch(bytes_)) {}

    size_t bytes() const { return bytes_; }
    void* of(int stream) const {
        return bytes_ == 0 ? nullptr : static_cast<char*>(memory_.get()) + static_cast<size_t>(stream) * stream_bytes_;
    }

private:
    size_t stream_bytes_;
    size_t bytes_;
    Scratch memory_;
};

// How a run is cut into launches, and by which kernel: what follows from how many batches a slot holds.
struct RunPlan {
    RunPlan(const EngineRequest& request, const Device& device, const SlotPlan& plan)
        : slots(plan), queries_at_once(plan_queries(request.problem, request.options, plan.batches)),
          streams(queries_at_once < request.problem.queries ? request.options.streams : plan.slots),
          launch(launch_problem(request.problem, plan.batches, queries_at_once)),
          kernel(&kernel_for(request, launch, device)), scratch_bytes(plan_of(*kernel, launch, device).scratch_bytes) {}

    SlotPlan slots;
    int64_t queries_at_once; // of a batch
    int streams;             // one for each slot; as many as asked for where batches are split
    Problem launch;          // the largest
    const Kernel* kernel;
    size_t scratch_bytes; // of a launch
};

// All that a run has on the GPU.
struct DeviceMemory {
    DeviceMemory(const EngineRequest& request, const RunPlan& run_plan)
        : plan(run_plan), slots(request.problem, request.options.copies, plan.slots),
          scratch(plan.scratch_bytes, plan.streams) {}

    RunPlan plan;
    Slots slots;
    StreamScratch scratch;
};

[[noreturn]] void fail_out_of_memory(const EngineRequest& request, const RunPlan& plan, const Error& error) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    HW4_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const size_t device_bytes = device_bytes_per_batch(request.problem, request.options.copies) + plan.scratch_bytes;
    throw Error(ExitCode::out_of_memory, "one batch needs about " + std::to_string(device_bytes) +
                                             " bytes on the GPU, which has " + std::to_string(free_bytes) +
                                             " free: " + error.what());
}

// As many slots as planned; where memory does not allow it, smaller ones, then fewer.
DeviceMemory make_memory(const EngineRequest& request, const Device& device) {
    for (SlotPlan slots = plan_slots(request.problem, request.options);; slots = smaller(slots)) {
        const RunPlan plan(request, device, slots);
        try {
            return DeviceMemory(request, plan);
        } catch (const Error& error) {
            if (error.code() != ExitCode::out_of_memory) throw;
            (void)cudaGetLastError(); // the failed allocation is not to be seen by the next check
            if (slots == kSmallestPlan) fail_out_of_memory(request, plan, error);
        }
    }
}

// " sm_80 sm_90 compute_90"
std::string arch_list() {
    const BuiltFor built = built_for();
    std::string list;
    for (const int arch : built.archs) list += " sm_" + std::to_string(arch);
    return list + " compute_" + std::to_string(built.ptx);
}

// Before there is a context no call has an error of its own: whatever is wrong, the GPU is not to be had. But that it
// is full, of other processes' memory, passes; some drivers call that busy.
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
        : problem_(request.problem), copies_(request.options.copies), pen_(request.pen), device_(current_device()),
          pinned_(pen_.time(Stage::pin, request.staging_bytes,
                            [&] { return pin(request.staging, request.staging_bytes); })),
          memory_(pen_.time(Stage::allocate, 0, [&] { return make_memory(request, device_); })),
          streams_(make_streams(memory_.plan.streams)), out_streams_(make_streams(request.writers)),
          times_(request.timeline, static_cast<int>(streams_.size()), request.writers),
          copies_in_(static_cast<size_t>(request.ring_buffers)) {
        for (int slot = 0; slot < memory_.slots.count(); ++slot) chunks_.emplace_back(slices(), times_.wanted());
        for (int writer = 0; writer < request.writers; ++writer) copies_out_.emplace_back(times_.wanted());
    }

    // A run that fails while chunks are in flight must not pull the memory from under them.
    ~GpuEngine() override {
        for (const Stream& stream : streams_) HW4_CUDA_NOEXCEPT(cudaStreamSynchronize(stream.get()));
        for (const Stream& stream : out_streams_) HW4_CUDA_NOEXCEPT(cudaStreamSynchronize(stream.get()));
    }

    int slots() const override { return memory_.slots.count(); }
    int64_t chunk_batches() const override { return memory_.slots.batches(); }
    int slices() const override {
        return static_cast<int>((problem_.queries + queries_at_once() - 1) / queries_at_once());
    }
    RowRange completes(int64_t batches, int slice) const override {
        if (slices() == 1) return {0, batches * problem_.batch_output_rows()};
        const int64_t first = slice * queries_at_once();
        return {first, std::min(queries_at_once(), problem_.queries - first)};
    }

    void copy_in(const RowsIn& rows) override {
        if (rows.first_row == 0) wait_for_other_streams(rows.slot);
        TimedWork& copy =
            copies_in_[static_cast<size_t>(rows.buffer)].add(rows.slot, bytes_of(rows.rows), times_.wanted());
        copy.begin(stream(rows.slot));
        memory_.slots.copy_in(rows.slot, rows.first_row, rows.rows, rows.from, stream(rows.slot));
        copy.end(stream(rows.slot));
    }

    void wait_until_copied(int buffer) override {
        copies_in_[static_cast<size_t>(buffer)].settle(Stage::copy_in, times_);
    }

    void compute(const Work& work) override {
        ChunkOfSlot& chunk = chunk_of(work.slot);
        const int turn = stream_of(work.slot, work.slice);
        if (work.slice == 0) {
            note_kernels(work.slot);
            HW4_CUDA(cudaEventRecord(chunk.copied_in.get(), stream(work.slot)));
        }
        if (turn != work.slot) HW4_CUDA(cudaStreamWaitEvent(stream(turn), chunk.copied_in.get()));
        TimedWork& timed = chunk.of(work.slice);
        timed.begin(stream(turn));
        if (launched_)
            launch(work, turn);
        else // the first launch takes the kernel's code to the GPU
            pen_.time(Stage::load, 0, [&] { launch(work, turn); });
        timed.end(stream(turn));
        launched_ = chunk.computed = true;
    }

    // In a stream of the writer's own: the slot's may have more to compute by now.
    const float* fetch(const RowsOut& rows) override {
        cudaStream_t out = out_streams_[static_cast<size_t>(rows.writer)].get();
        const int last_slice = slice_of(rows.first_row + rows.rows - 1);
        HW4_CUDA(cudaStreamWaitEvent(out, chunk_of(rows.slot).of(last_slice).done()));
        TimedWork& copy = copies_out_[static_cast<size_t>(rows.writer)];
        copy.begin(out);
        memory_.slots.copy_out(rows.slot, rows.first_row, rows.rows, rows.staging, out);
        copy.end(out);
        copy.wait();
        times_.add(copy, static_cast<int>(streams_.size()) + rows.writer, Stage::copy_out, bytes_of(rows.rows));
        return rows.staging;
    }

    EngineFacts finish() override {
        for (TimedWorks& copies : copies_in_) copies.settle(Stage::copy_in, times_);
        for (int slot = 0; slot < memory_.slots.count(); ++slot) note_kernels(slot);
        EngineFacts facts;
        facts.device = "gpu";
        facts.device_name = times_.wanted() ? device_name() : ""; // a slow question
        facts.kernel = kernel().name;
        facts.contract = kernel().under;
        facts.streams = static_cast<int>(streams_.size());
        facts.copies = name_of(copies_);
        facts.chunk_batches = memory_.slots.batches();
        facts.queries_at_once = queries_at_once();
        facts.device_bytes = memory_.slots.bytes() + memory_.scratch.bytes();
        return facts;
    }

private:
    // What is under way with the chunk in a slot.
    struct ChunkOfSlot {
        ChunkOfSlot(int slices, bool timed) : copied_in(make_event(cudaEventDisableTiming)) {
            for (int i = 0; i < slices; ++i) kernels.emplace_back(timed);
        }
        TimedWork& of(int slice) { return kernels[static_cast<size_t>(slice)]; }

        Event copied_in;
        std::vector<TimedWork> kernels; // by slice
        bool computed = false;          // and not yet written down
    };

    static std::vector<Stream> make_streams(int count) {
        std::vector<Stream> made;
        for (int i = 0; i < count; ++i) made.push_back(make_stream());
        return made;
    }

    const Kernel& kernel() const { return *memory_.plan.kernel; }
    int64_t queries_at_once() const { return memory_.plan.queries_at_once; }
    // Which completes that row of a slot's output.
    int slice_of(int64_t row) const { return slices() == 1 ? 0 : static_cast<int>(row / queries_at_once()); }
    // Slices of a batch take the streams in turn, so that one fills the multiprocessors that the other leaves.
    int stream_of(int slot, int slice) const { return (slot + slice) % static_cast<int>(streams_.size()); }
    cudaStream_t stream(int index) const { return streams_[static_cast<size_t>(index)].get(); }
    ChunkOfSlot& chunk_of(int slot) { return chunks_[static_cast<size_t>(slot)]; }
    size_t bytes_of(int64_t rows) const { return static_cast<size_t>(rows) * problem_.row_bytes(); }

    // Before a slot's input is overwritten: slices of the chunk before may be computed in other streams.
    void wait_for_other_streams(int slot) {
        if (!chunk_of(slot).computed) return;
        for (int slice = 0; slice < slices(); ++slice)
            if (stream_of(slot, slice) != slot)
                HW4_CUDA(cudaStreamWaitEvent(stream(slot), chunk_of(slot).of(slice).done()));
    }

    // Writes down what the chunk before took, whose output was fetched.
    void note_kernels(int slot) {
        ChunkOfSlot& chunk = chunk_of(slot);
        if (!chunk.computed) return;
        for (int slice = 0; slice < slices(); ++slice)
            times_.add(chunk.of(slice), stream_of(slot, slice), Stage::kernel, 0);
        chunk.computed = false;
    }

    void launch(const Work& work, int turn) {
        const Slots& slots = memory_.slots;
        Launch launch = launch_of(problem_.of_batches(work.batches), device_, slots.input(work.slot), slots.stride(),
                                  slots.output(work.slot), slots.stride(), memory_.scratch.of(turn));
        launch.first_query = work.slice * queries_at_once();
        launch.end_query = launch.first_query + queries_at_once();
        kernel().launch(launch, stream(turn));
    }

    const Problem problem_;
    const Copies copies_;
    const Pen pen_;
    const Device device_;
    const Pinned pinned_;
    DeviceMemory memory_;
    const std::vector<Stream> streams_;
    const std::vector<Stream> out_streams_; // by writer
    StreamTimes times_;
    std::vector<TimedWorks> copies_in_; // by staging buffer
    std::vector<ChunkOfSlot> chunks_;   // by slot
    std::vector<TimedWork> copies_out_; // by writer
    bool launched_ = false;
};

} // namespace

std::vector<KernelInfo> kernel_list() {
    std::vector<KernelInfo> list;
    for (const Kernel& kernel : kernels()) list.push_back({kernel.name, kernel.idea, kernel.does, kernel.under, ""});
    return list;
}

std::string build_description() {
    return "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) + " for" +
           arch_list();
}

Unusable unusable(const Pen& pen) {
    const auto none = [](const std::string& reason) { return Unusable{reason, ExitCode::no_gpu}; };
    int count = 0;
    const cudaError_t status = pen.time(Stage::driver, 0, [&] { return HW4_CUDA_STATUS(cudaGetDeviceCount(&count)); });
    if (status == cudaErrorInsufficientDriver)
        return none("no NVIDIA driver, or one older than " + build_description());
    if (status != cudaSuccess) return without_context(status);
    if (count == 0) return none("no CUDA device");
    // Makes the context, which fails where the card is there but taken, full or broken.
    const cudaError_t context = pen.time(Stage::context, 0, [] { return HW4_CUDA_STATUS(cudaFree(nullptr)); });
    if (context != cudaSuccess) return without_context(context);
    const int arch = current_device().arch;
    if (code_arch(arch, built_for()) > 0) return none("");
    return none(device_name() + " is sm_" + std::to_string(arch) + ", this build has" + arch_list() +
                "; make ARCHS=" + std::to_string(arch) + " makes one for it");
}

std::string unsupported_reason(const Problem& problem, const std::string& name, const Contract& contract) {
    return unsupported_reason_on(current_device(), problem.of_batches(1), name, contract); // which is what must fit
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request) { return std::make_unique<GpuEngine>(request); }

} // namespace hw4::gpu
