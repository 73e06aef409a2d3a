// The GPU engine: a stream for each slot, in which a chunk is copied in, computed and copied out; the chunks of
// different slots overlap.
#include "engine.h"

#include <vector>

#include "../error.h"
#include "check.h"
#include "kernels.h"
#include "memory.h"
#include "operation.h"
#include "slot_plan.h"
#include "slots.h"

namespace hw4::gpu {
namespace {

const Kernel& kernel_for(const std::string& path, const Shape& shape, const std::string& name) {
    const std::string unsupported = unsupported_reason(shape, name);
    if (!unsupported.empty()) throw Error(ExitCode::bad_data, path + ": " + unsupported);
    return name.empty() ? *choose_kernel(shape, current_device()) : *find_kernel(name);
}

[[noreturn]] void fail_out_of_memory(const Shape& shape, Copies copies, const Error& error) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    HW4_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const size_t device_bytes = device_bytes_per_batch(shape, copies);
    throw Error(ExitCode::out_of_memory, "one batch needs about " + std::to_string(device_bytes) +
                                             " bytes on the GPU, which has " + std::to_string(free_bytes) +
                                             " free: " + error.what());
}

// As many slots as planned; where memory does not allow it, smaller ones, then fewer.
Slots make_slots(const Shape& shape, Copies copies, SlotPlan plan) {
    for (;;) {
        try {
            return Slots(shape, copies, plan);
        } catch (const Error& error) {
            if (error.code() != ExitCode::out_of_memory) throw;
            (void)cudaGetLastError(); // the failed allocation is not to be seen by the next check
            if (plan == kSmallestPlan) fail_out_of_memory(shape, copies, error);
            plan = smaller(plan);
        }
    }
}

std::string arch_list() {
    std::string list;
    for (const int arch : built_archs()) list += " sm_" + std::to_string(arch);
    return list;
}

class GpuEngine : public Engine {
public:
    explicit GpuEngine(const EngineRequest& request)
        : shape_(request.shape), copies_(request.options.copies), pen_(request.pen),
          kernel_(kernel_for(request.input, shape_, request.options.kernel)),
          pinned_(pen_.time(Stage::pin, request.staging_bytes,
                            [&] { return pin(request.staging, request.staging_bytes); })),
          slots_(pen_.time(Stage::allocate, 0,
                           [&] { return make_slots(shape_, copies_, plan_slots(shape_, request.options)); })),
          times_(request.timeline, slots_.count()), copies_in_(static_cast<size_t>(request.ring_buffers)),
          kernels_(static_cast<size_t>(slots_.count())) {
        for (int slot = 0; slot < slots_.count(); ++slot) streams_.push_back(make_stream());
        for (int writer = 0; writer < request.writers; ++writer) copies_out_.emplace_back(times_.wanted());
    }

    // A run that fails while chunks are in flight must not pull the memory from under them.
    ~GpuEngine() override {
        for (const Stream& stream : streams_) HW4_CUDA_NOEXCEPT(cudaStreamSynchronize(stream.get()));
    }

    int slots() const override { return slots_.count(); }
    int64_t chunk_batches() const override { return slots_.batches(); }
    int64_t queries_at_once() const override { return shape_.tokens; }

    void copy_in(const RowsIn& rows) override {
        Operation& copy =
            copies_in_[static_cast<size_t>(rows.buffer)].add(rows.slot, bytes_of(rows.rows), times_.wanted());
        copy.begin(stream(rows.slot));
        slots_.copy_in(rows.slot, rows.first_row, rows.rows, rows.from, stream(rows.slot));
        copy.end(stream(rows.slot));
    }

    void wait_until_copied(int buffer) override {
        copies_in_[static_cast<size_t>(buffer)].settle(Stage::copy_in, times_);
    }

    void compute(const Work& work) override {
        Operations& kernels = kernels_[static_cast<size_t>(work.slot)];
        if (work.first_query == 0) kernels.settle(Stage::kernel, times_); // the output of those before is long fetched
        Operation& operation = kernels.add(work.slot, 0, times_.wanted());
        operation.begin(stream(work.slot));
        if (launched_)
            launch(work);
        else
            pen_.time(Stage::load, 0, [&] { launch(work); }); // the first launch takes the kernel's code to the GPU
        operation.end(stream(work.slot));
        launched_ = true;
    }

    const float* fetch(const RowsOut& rows) override {
        Operation& copy = copies_out_[static_cast<size_t>(rows.writer)];
        copy.begin(stream(rows.slot));
        slots_.copy_out(rows.slot, rows.first_row, rows.rows, rows.staging, stream(rows.slot));
        copy.end(stream(rows.slot));
        copy.wait();
        times_.add(copy, rows.slot, Stage::copy_out, bytes_of(rows.rows));
        return rows.staging;
    }

    EngineFacts finish() override {
        for (Operations& copies : copies_in_) copies.settle(Stage::copy_in, times_);
        for (Operations& kernels : kernels_) kernels.settle(Stage::kernel, times_);
        EngineFacts facts;
        facts.device = "gpu";
        facts.device_name = times_.wanted() ? device_name() : ""; // a slow question
        facts.kernel = kernel_.name;
        facts.streams = slots_.count();
        facts.copies = name_of(copies_);
        facts.chunk_batches = slots_.batches();
        facts.device_bytes = slots_.bytes();
        return facts;
    }

private:
    cudaStream_t stream(int slot) const { return streams_[static_cast<size_t>(slot)].get(); }
    size_t bytes_of(int64_t rows) const { return static_cast<size_t>(rows) * shape_.row_bytes(); }

    void launch(const Work& work) {
        kernel_.launch({slots_.input(work.slot), slots_.stride(), slots_.output(work.slot), slots_.stride(),
                        work.batches, shape_.tokens, static_cast<int>(shape_.dim), scale_for(shape_.dim)},
                       stream(work.slot));
    }

    const Shape shape_;
    const Copies copies_;
    const Pen pen_;
    const Kernel& kernel_;
    const Pinned pinned_;
    Slots slots_;
    StreamTimes times_;
    std::vector<Stream> streams_;       // by slot
    std::vector<Operations> copies_in_; // by staging buffer
    std::vector<Operations> kernels_;   // by slot: of its last chunk
    std::vector<Operation> copies_out_; // by writer
    bool launched_ = false;
};

} // namespace

std::vector<KernelInfo> kernel_list() {
    std::vector<KernelInfo> list;
    for (const Kernel& kernel : kernels()) list.push_back({kernel.name, kernel.idea});
    return list;
}

std::string build_description() {
    return "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) + " for" +
           arch_list();
}

std::string unusable_reason(const Pen& pen) {
    int count = 0;
    const cudaError_t status = pen.time(Stage::driver, 0, [&] { return cudaGetDeviceCount(&count); });
    if (status == cudaErrorInsufficientDriver) return "no NVIDIA driver, or one older than " + build_description();
    if (status != cudaSuccess) return std::string(cudaGetErrorString(status));
    if (count == 0) return "no CUDA device";
    // Makes the context, which fails where the card is there but taken or broken.
    const cudaError_t context = pen.time(Stage::context, 0, [] { return cudaFree(nullptr); });
    if (context != cudaSuccess) return std::string(cudaGetErrorString(context));
    const int arch = current_device().arch;
    if (code_arch(arch, built_archs()) > 0) return "";
    return device_name() + " is sm_" + std::to_string(arch) + ", this build has" + arch_list() +
           "; make ARCHS=" + std::to_string(arch) + " makes one for it";
}

std::string unsupported_reason(const Shape& shape, const std::string& name) {
    const Device device = current_device();
    if (name.empty() && choose_kernel(shape, device) != nullptr) return "";
    const Kernel* kernel = name.empty() ? &kernels().front() : find_kernel(name);
    return kernel == nullptr ? "there is no kernel '" + name + "'" : why_not(*kernel, shape, device);
}

std::unique_ptr<Engine> make_engine(const EngineRequest& request) { return std::make_unique<GpuEngine>(request); }

} // namespace hw4::gpu
