// The GPU engine: batches in chunks, round robin over the streams, so that reading, copying in, computing,
// copying out and writing of different chunks overlap. Each stream has a slot of its own: pinned staging
// buffers and device matrices.
#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "../busy_intervals.h"
#include "../error.h"
#include "check.h"
#include "engine.h"
#include "kernels.h"
#include "memory.h"
#include "slot_plan.h"

namespace hw4::gpu {
namespace {

const Kernel& kernel_for(const std::string& path, const Shape& shape, const std::string& name) {
    const std::string unsupported = unsupported_reason(shape, name);
    if (!unsupported.empty()) throw Error(ExitCode::bad_data, path + ": " + unsupported);
    return name.empty() ? *choose_kernel(shape, current_device()) : *find_kernel(name);
}

// When each stage was at work on the GPU, measured from one event for all streams.
class GpuTimes {
public:
    GpuTimes() : zero_(make_event()) {
        HW4_CUDA(cudaEventRecord(zero_.get()));
        HW4_CUDA(cudaEventSynchronize(zero_.get())); // before anything that is measured from it
    }

    void add(const Event& started, const Event& copied_in, const Event& computed, const Event& copied_out) {
        const double times[] = {since_zero(started), since_zero(copied_in), since_zero(computed),
                                since_zero(copied_out)};
        copy_in_.add(times[0], times[1]);
        kernel_.add(times[1], times[2]);
        copy_out_.add(times[2], times[3]);
    }

    void fill(StageSeconds& seconds) const {
        seconds.copy_in = copy_in_.seconds();
        seconds.kernel = kernel_.seconds();
        seconds.copy_out = copy_out_.seconds();
    }

private:
    double since_zero(const Event& event) const {
        float milliseconds = 0;
        HW4_CUDA(cudaEventElapsedTime(&milliseconds, zero_.get(), event.get()));
        return milliseconds * 1e-3;
    }

    Event zero_;
    BusyIntervals copy_in_, kernel_, copy_out_;
};

// The way of one chunk through the GPU.
class Slot {
public:
    Slot(const Shape& shape, int64_t batches, Copies copies)
        : shape_(shape), stream_(make_stream()), started_(make_event()), copied_in_(make_event()),
          computed_(make_event()), copied_out_(make_event()), qkv_(rows(3 * batches), columns(), copies),
          o_(rows(batches), columns(), copies),
          host_in_(make_pinned(static_cast<size_t>(batches) * shape.batch_input_floats())),
          host_out_(make_pinned(static_cast<size_t>(batches) * shape.matrix_floats())) {}

    Slot(Slot&&) = default;
    // A run that fails while a chunk is in flight must not pull the buffers from under it.
    ~Slot() {
        if (stream_.get()) HW4_CUDA_NOEXCEPT(cudaStreamSynchronize(stream_.get()));
    }

    bool busy() const { return batches_ > 0; }
    float* input() const { return host_in_.get(); }

    void submit(const Kernel& kernel, int64_t batches) {
        batches_ = batches;
        HW4_CUDA(cudaEventRecord(started_.get(), stream_.get()));
        qkv_.copy_in(host_in_.get(), rows(3 * batches), stream_.get());
        HW4_CUDA(cudaEventRecord(copied_in_.get(), stream_.get()));
        kernel.launch({qkv_.data(), qkv_.stride(), o_.data(), o_.stride(), batches, shape_.tokens,
                       static_cast<int>(shape_.dim), scale_for(shape_.dim)},
                      stream_.get());
        HW4_CUDA(cudaEventRecord(computed_.get(), stream_.get()));
        o_.copy_out(host_out_.get(), rows(batches), stream_.get());
        HW4_CUDA(cudaEventRecord(copied_out_.get(), stream_.get()));
    }

    // Waits for the chunk, writes it, and is free again.
    void retire(OutputFile& output, GpuTimes& times, StageSeconds& seconds) {
        HW4_CUDA(cudaEventSynchronize(copied_out_.get()));
        times.add(started_, copied_in_, computed_, copied_out_);
        const StageTimer timer(seconds.write);
        output.write(host_out_.get(), static_cast<size_t>(batches_) * shape_.batch_output_bytes());
        batches_ = 0;
    }

private:
    size_t rows(int64_t matrices) const { return static_cast<size_t>(matrices) * static_cast<size_t>(shape_.tokens); }
    size_t columns() const { return static_cast<size_t>(shape_.dim); }

    Shape shape_;
    Stream stream_;
    Event started_, copied_in_, computed_, copied_out_;
    PitchedMatrix qkv_; // [3 * batches * tokens][dim]
    PitchedMatrix o_;   // [batches * tokens][dim]
    PinnedBuffer host_in_;
    PinnedBuffer host_out_;
    int64_t batches_ = 0; // of the chunk in flight; 0: free
};

struct Slots {
    std::vector<Slot> list;
    int64_t batches = 0; // that fit in each
};

[[noreturn]] void fail_out_of_memory(const Shape& shape, Copies copies, const Error& error) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    HW4_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const size_t device_bytes = device_bytes_per_batch(shape, copies);
    const size_t host_bytes = shape.batch_input_bytes() + shape.batch_output_bytes();
    throw Error(ExitCode::out_of_memory, "one batch needs about " + std::to_string(device_bytes) +
                                             " bytes on the GPU, which has " + std::to_string(free_bytes) +
                                             " free, and " + std::to_string(host_bytes) +
                                             " of pinned host memory: " + error.what());
}

// As many slots as planned; where memory does not allow it, smaller ones, then fewer.
Slots make_slots(const Shape& shape, Copies copies, SlotPlan plan) {
    for (;;) {
        try {
            Slots made;
            made.batches = plan.batches;
            while (made.list.size() < static_cast<size_t>(plan.slots))
                made.list.emplace_back(shape, plan.batches, copies);
            return made;
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

std::string unusable_reason() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver) return "no NVIDIA driver, or one older than " + build_description();
    if (status != cudaSuccess) return std::string(cudaGetErrorString(status));
    if (count == 0) return "no CUDA device";
    // Makes the context, which fails where the card is there but taken or broken.
    const cudaError_t context = cudaFree(nullptr);
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

RunReport run(CaseReader& input, OutputFile& output, const EngineOptions& options) {
    const Shape& shape = input.shape();
    RunReport report;
    report.device = "gpu";
    const Kernel& kernel = kernel_for(input.path(), shape, options.kernel);
    Slots slots;
    {
        const StageTimer timer(report.seconds.context);
        slots = make_slots(shape, options.copies, plan_slots(shape, options));
        report.device_name = device_name();
    }
    GpuTimes times;
    report.kernel = kernel.name;
    report.streams = static_cast<int>(slots.list.size());
    report.copies = name_of(options.copies);
    report.chunk_batches = slots.batches;

    // Chunks go to the slots in turn, so taking the slots in turn also retires the chunks in file order.
    size_t turn = 0;
    const auto next_slot = [&]() -> Slot& {
        Slot& slot = slots.list[turn];
        turn = (turn + 1) % slots.list.size();
        if (slot.busy()) slot.retire(output, times, report.seconds);
        return slot;
    };
    for (int64_t first = 0; first < shape.batches; first += slots.batches) {
        const int64_t count = std::min(slots.batches, shape.batches - first);
        Slot& slot = next_slot();
        {
            const StageTimer timer(report.seconds.read);
            read_checked(input, first, count, slot.input());
        }
        slot.submit(kernel, count);
    }
    input.expect_end();
    for (size_t i = 0; i < slots.list.size(); ++i) next_slot();
    times.fill(report.seconds);
    return report;
}

} // namespace hw4::gpu
