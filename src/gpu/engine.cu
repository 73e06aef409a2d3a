// The GPU engine: a stream for each slot, in which a chunk is copied in and computed, and one for each writer, in which
// output is copied out; the chunks of different slots overlap.
#include "src/gpu/engine.h"

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

const Kernel& kernel_for(const EngineRequest& request) {
    const std::string& name = request.options.kernel;
    const Arithmetic arithmetic = request.options.arithmetic;
    const std::string unsupported = unsupported_reason(request.shape, name, arithmetic);
    if (!unsupported.empty()) throw Error(ExitCode::bad_data, request.input + ": " + unsupported);
    const Kernel& kernel =
        name.empty() ? *choose_kernel(request.shape, current_device(), arithmetic) : *find_kernel(name);
    refuse_other_arithmetic(name, kernel.arithmetic, arithmetic);
    return kernel;
}

// The plainest of the contract, which says why no other can either; null when this build has none.
const Kernel* first_kernel(Arithmetic arithmetic) {
    for (const Kernel& kernel : kernels())
        if (kernel.arithmetic == arithmetic) return &kernel;
    return nullptr;
}

// The kernel's scratch memory, for each stream its own.
class StreamScratch {
public:
    StreamScratch(const Kernel& kernel, const Shape& chunk, int streams)
        : stream_bytes_((kernel.scratch_bytes(chunk, current_device()) + kRowAlignment - 1) / kRowAlignment *
                        kRowAlignment),
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

// All that a run has on the GPU, and what follows from how much that is.
struct DeviceMemory {
    DeviceMemory(const Kernel& kernel, const Shape& shape, const EngineOptions& options, const SlotPlan& plan)
        : slots(shape, options.copies, plan), queries_at_once(plan_queries(shape, options, plan.batches)),
          streams(queries_at_once < shape.tokens ? options.streams : plan.slots),
          scratch(kernel, {plan.batches, shape.tokens, shape.dim}, streams) {}

    Slots slots;
    int64_t queries_at_once;
    int streams; // one for each slot; as many as asked for where batches are split
    StreamScratch scratch;
};

[[noreturn]] void fail_out_of_memory(const Kernel& kernel, const Shape& shape, Copies copies, const Error& error) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    HW4_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const size_t device_bytes =
        device_bytes_per_batch(shape, copies) + kernel.scratch_bytes({1, shape.tokens, shape.dim}, current_device());
    throw Error(ExitCode::out_of_memory, "one batch needs about " + std::to_string(device_bytes) +
                                             " bytes on the GPU, which has " + std::to_string(free_bytes) +
                                             " free: " + error.what());
}

// As many slots as planned; where memory does not allow it, smaller ones, then fewer.
DeviceMemory make_memory(const Kernel& kernel, const Shape& shape, const EngineOptions& options) {
    for (SlotPlan plan = plan_slots(shape, options);; plan = smaller(plan)) {
        try {
            return DeviceMemory(kernel, shape, options, plan);
        } catch (const Error& error) {
            if (error.code() != ExitCode::out_of_memory) throw;
            (void)cudaGetLastError(); // the failed allocation is not to be seen by the next check
            if (plan == kSmallestPlan) fail_out_of_memory(kernel, shape, options.copies, error);
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

class GpuEngine : public Engine {
public:
    explicit GpuEngine(const EngineRequest& request)
        : shape_(request.shape), copies_(request.options.copies), pen_(request.pen), kernel_(kernel_for(request)),
          pinned_(pen_.time(Stage::pin, request.staging_bytes,
                            [&] { return pin(request.staging, request.staging_bytes); })),
          memory_(pen_.time(Stage::allocate, 0, [&] { return make_memory(kernel_, shape_, request.options); })),
          streams_(make_streams(memory_.streams)), out_streams_(make_streams(request.writers)),
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
    int64_t queries_at_once() const override { return memory_.queries_at_once; }

    void copy_in(const RowsIn& rows) override {
        if (rows.first_row == 0) wait_for_other_streams(rows.slot);
        Operation& copy =
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
        const size_t slice = slice_of(work.first_query);
        const int turn = stream_of(work.slot, slice);
        if (slice == 0) {
            note_kernels(work.slot);
            HW4_CUDA(cudaEventRecord(chunk.copied_in.get(), stream(work.slot)));
        }
        if (turn != work.slot) HW4_CUDA(cudaStreamWaitEvent(stream(turn), chunk.copied_in.get()));
        Operation& operation = chunk.kernels[slice];
        operation.begin(stream(turn));
        if (launched_)
            launch(work, turn);
        else // the first launch takes the kernel's code to the GPU
            pen_.time(Stage::load, 0, [&] { launch(work, turn); });
        operation.end(stream(turn));
        launched_ = chunk.computed = true;
    }

    // In a stream of the writer's own: the slot's may have more to compute by now.
    const float* fetch(const RowsOut& rows) override {
        cudaStream_t out = out_streams_[static_cast<size_t>(rows.writer)].get();
        const int64_t last_row = (rows.first_row + rows.rows - 1) % shape_.tokens;
        HW4_CUDA(cudaStreamWaitEvent(out, chunk_of(rows.slot).kernels[slice_of(last_row)].done()));
        Operation& copy = copies_out_[static_cast<size_t>(rows.writer)];
        copy.begin(out);
        memory_.slots.copy_out(rows.slot, rows.first_row, rows.rows, rows.staging, out);
        copy.end(out);
        copy.wait();
        times_.add(copy, static_cast<int>(streams_.size()) + rows.writer, Stage::copy_out, bytes_of(rows.rows));
        return rows.staging;
    }

    EngineFacts finish() override {
        for (Operations& copies : copies_in_) copies.settle(Stage::copy_in, times_);
        for (int slot = 0; slot < memory_.slots.count(); ++slot) note_kernels(slot);
        EngineFacts facts;
        facts.device = "gpu";
        facts.device_name = times_.wanted() ? device_name() : ""; // a slow question
        facts.kernel = kernel_.name;
        facts.arithmetic = kernel_.arithmetic;
        facts.streams = static_cast<int>(streams_.size());
        facts.copies = name_of(copies_);
        facts.chunk_batches = memory_.slots.batches();
        facts.queries_at_once = memory_.queries_at_once;
        facts.device_bytes = memory_.slots.bytes() + memory_.scratch.bytes();
        return facts;
    }

private:
    // What is under way with the chunk in a slot.
    struct ChunkOfSlot {
        ChunkOfSlot(size_t slices, bool timed) : copied_in(make_event(cudaEventDisableTiming)) {
            while (kernels.size() < slices) kernels.emplace_back(timed);
        }
        Event copied_in;
        std::vector<Operation> kernels; // by slice
        bool computed = false;          // and not yet written down
    };

    static std::vector<Stream> make_streams(int count) {
        std::vector<Stream> made;
        for (int i = 0; i < count; ++i) made.push_back(make_stream());
        return made;
    }

    size_t slices() const { return slice_of(shape_.tokens - 1) + 1; }
    size_t slice_of(int64_t query) const { return static_cast<size_t>(query / memory_.queries_at_once); }
    // Slices of a batch take the streams in turn, so that one fills the multiprocessors that the other leaves.
    int stream_of(int slot, size_t slice) const {
        return static_cast<int>((static_cast<size_t>(slot) + slice) % streams_.size());
    }
    cudaStream_t stream(int index) const { return streams_[static_cast<size_t>(index)].get(); }
    ChunkOfSlot& chunk_of(int slot) { return chunks_[static_cast<size_t>(slot)]; }
    size_t bytes_of(int64_t rows) const { return static_cast<size_t>(rows) * shape_.row_bytes(); }

    // Before a slot's Q, K and V are overwritten: slices of the chunk before may be computed in other streams.
    void wait_for_other_streams(int slot) {
        if (!chunk_of(slot).computed) return;
        for (size_t slice = 0; slice < slices(); ++slice)
            if (stream_of(slot, slice) != slot)
                HW4_CUDA(cudaStreamWaitEvent(stream(slot), chunk_of(slot).kernels[slice].done()));
    }

    // Writes down what the chunk before took, whose output was fetched.
    void note_kernels(int slot) {
        ChunkOfSlot& chunk = chunk_of(slot);
        if (!chunk.computed) return;
        for (size_t slice = 0; slice < slices(); ++slice)
            times_.add(chunk.kernels[slice], stream_of(slot, slice), Stage::kernel, 0);
        chunk.computed = false;
    }

    void launch(const Work& work, int turn) {
        const Slots& slots = memory_.slots;
        KernelArgs args = args_of({work.batches, shape_.tokens, shape_.dim}, slots.input(work.slot), slots.stride(),
                                  slots.output(work.slot), slots.stride(), memory_.scratch.of(turn));
        args.first_query = work.first_query;
        args.end_query = work.first_query + work.queries;
        kernel_.launch(args, stream(turn));
    }

    const Shape shape_;
    const Copies copies_;
    const Pen pen_;
    const Kernel& kernel_;
    const Pinned pinned_;
    DeviceMemory memory_;
    const std::vector<Stream> streams_;
    const std::vector<Stream> out_streams_; // by writer
    StreamTimes times_;
    std::vector<Operations> copies_in_; // by staging buffer
    std::vector<ChunkOfSlot> chunks_;   // by slot
    std::vector<Operation> copies_out_; // by writer
    bool launched_ = false;
};

} // namespace

std::vector<KernelInfo> kernel_list() {
    std::vector<KernelInfo> list;
    for (const Kernel& kernel : kernels()) list.push_back({kernel.name, kernel.idea, kernel.arithmetic});
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

std::string unsupported_reason(const Shape& shape, const std::string& name, Arithmetic arithmetic) {
    const Device device = current_device();
    if (name.empty() && choose_kernel(shape, device, arithmetic) != nullptr) return "";
    const Kernel* kernel = name.empty() ? first_kernel(arithmetic) : find_kernel(name);
    if (kernel != nullptr) return why_not(*kernel, shape, device);
    return name.empty() ? "no GPU kernel of this build computes " + std::string(name_of(arithmetic))
                        : "there is no kernel '" + name + "'";
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request) { return std::make_unique<GpuEngine>(request); }

} // namespace hw4::gpu
