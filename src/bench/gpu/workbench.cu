// The card as a workbench: launches the kernels of src/gpu, and the naive baseline. Rows are dim apart, as in a tensor:
// counted memory is that of a tensor of this shape.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/json.h"
#include "src/base/parallel.h"
#include "src/base/untouched_vector.h"
#include "src/bench/naive_subject.h"
#include "src/bench/workbench.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"
#include "src/gpu/slot_plan.h"

namespace hw4::bench {
namespace gpu_side {
namespace {

// ---- The card

size_t free_on_card() {
    size_t free = 0;
    size_t total = 0;
    HW4_CUDA(cudaMemGetInfo(&free, &total));
    return free;
}

// Counted memory of the card.
class Memory {
public:
    Memory() = default;
    Memory(MemoryCount& count, size_t bytes, const char* purpose)
        : counted_(count, bytes, purpose, [&] {
              try {
                  memory_ = gpu::make_scratch(bytes);
              } catch (const Error& error) {
                  if (error.code() != ExitCode::out_of_memory) throw;
                  count.refuse(bytes, free_on_card(), purpose);
              }
          }) {}

    void* get() const { return memory_.get(); }

private:
    gpu::Scratch memory_; // declared before what counts it
    Counted counted_;
};

// The kernel of that name in the table, or the one that hw4 takes. Throws Unsupported.
const gpu::Kernel& kernel_for(const std::string& name, const Problem& problem, const Contract& contract,
                              const gpu::Device& device, const std::vector<gpu::Kernel>& table) {
    const std::string lacking = why_not(contract, problem);
    if (!lacking.empty()) throw Unsupported(lacking);
    const gpu::Kernel* const found =
        name.empty() ? gpu::choose_kernel(problem, device, contract) : gpu::find_kernel(name, table);
    const std::vector<gpu::Kernel> all = gpu::kernels_of(contract, *problem.operation);
    if (found == nullptr)
        throw Unsupported(all.empty() ? "no GPU kernel of this build computes " + std::string(contract.name) + " " +
                                            problem.operation->name
                                      : gpu::plan_of(all.front(), problem, device).why_not);
    const std::string reason = gpu::plan_of(*found, problem, device).why_not;
    if (!reason.empty()) throw Unsupported(reason);
    return *found;
}

// Passes O and the statistics of its rows from an earlier forward launch to backward.
void bring_forward(gpu::Launch& backward, const gpu::Launch& forward) {
    backward.forward_out = forward.out[0];
    backward.statistics = forward.statistics;
}

// Scratch memory of a launch: up to the cell's budget, or the least where memory is short.
struct LaunchScratch {
    Memory memory;
    size_t bytes = 0;

    LaunchScratch() = default;
    LaunchScratch(const gpu::Plan& plan, int64_t budget, MemoryCount& count, const char* purpose)
        : bytes(gpu::scratch_for(plan.scratch_bytes, plan.most_scratch, static_cast<size_t>(budget), 1)) {
        try {
            memory = Memory(count, bytes, purpose);
        } catch (const OutOfMemory&) {
            if (bytes == plan.scratch_bytes) throw;
            bytes = plan.scratch_bytes;
            memory = Memory(count, bytes, purpose);
        }
    }
};

// Numbers are floats on the host and in their type's bits on the card. Both functions return when the copy is complete,
// after earlier work in the stream.
void put(const float* from, size_t count, Element element, void* to, cudaStream_t stream) {
    UntouchedVector<unsigned char> stored(count * bytes_of(element));
    in_pieces(count, kPieceNumbers, [&](size_t first, size_t some) {
        narrow(element, from + first, some, stored.data() + first * bytes_of(element));
    });
    HW4_CUDA(cudaMemcpyAsync(to, stored.data(), stored.size(), cudaMemcpyHostToDevice, stream));
    HW4_CUDA(cudaStreamSynchronize(stream));
}

void take(const void* from, Element element, float* to, size_t count, cudaStream_t stream) {
    UntouchedVector<unsigned char> stored(count * bytes_of(element));
    HW4_CUDA(cudaMemcpyAsync(stored.data(), from, stored.size(), cudaMemcpyDeviceToHost, stream));
    HW4_CUDA(cudaStreamSynchronize(stream));
    in_pieces(count, kPieceNumbers, [&](size_t first, size_t some) {
        widen(element, stored.data() + first * bytes_of(element), some, to + first);
    });
}

// A contract's kernels, on operands of the cell's element type.
class KernelSubject : public Subject {
public:
    KernelSubject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract,
                  const gpu::Device& device, const std::vector<gpu::Kernel>& table, cudaStream_t stream,
                  MemoryCount& memory)
        : pass_(pass), problem_(data.problem), device_(device), stream_(stream), scratch_budget_(cell.scratch) {
        const gpu::Kernel& chosen = kernel_for(cell.kernel, problem_, contract, device_, table);
        kernel = chosen.name;
        if (pass != Pass::forward && loses_output(chosen, problem_.element))
            throw Unsupported("backward of " + cell.impl + " needs O as float32, and " + name_of(cell.element) +
                              " rounds it");
        revision = contract.revision_of(*problem_.operation);
        in_ = Memory(memory, problem_.stored_input_bytes(), purpose::kInputs);
        put(data.values.data(), data.values.size(), problem_.element, in_.get(), stream_);
        if (pass == Pass::forward) {
            forward_kernel_ = &chosen;
            out_ = Memory(memory, problem_.stored_output_bytes(), purpose::kO);
            forward_scratch_ = scratch_for(chosen, problem_, memory);
            scratch_bytes = forward_scratch_.bytes;
            forward_ = launch(problem_, out_, forward_scratch_);
            return;
        }
        backward_kernel_ = &chosen;
        prepare_forward(contract, table, memory);
        before_backward_bytes = memory.in_use();
        out_ = Memory(memory, problem_.stored_output_bytes(), purpose::kGradients);
        backward_scratch_ = scratch_for(chosen, problem_, memory);
        scratch_bytes = backward_scratch_.bytes;
        backward_ = launch(problem_, out_, backward_scratch_);
        bring_forward(backward_, forward_);
        if (pass == Pass::backward) forward_kernel_->launch(forward_, stream_);
    }

    void run() override {
        if (pass_ != Pass::backward) forward_kernel_->launch(forward_, stream_);
        if (pass_ != Pass::forward) backward_kernel_->launch(backward_, stream_);
    }

    UntouchedVector<float> output() override {
        UntouchedVector<float> values(problem_.floats_in(problem_.output_rows()));
        take(out_.get(), problem_.element, values.data(), values.size(), stream_);
        return values;
    }

private:
    LaunchScratch scratch_for(const gpu::Kernel& of, const Problem& problem, MemoryCount& memory) const {
        return {gpu::plan_of(of, problem, device_), scratch_budget_, memory,
                problem.operation == &kForward ? purpose::kForwardScratch : purpose::kBackwardScratch};
    }

    gpu::Launch launch(const Problem& problem, const Memory& out, const LaunchScratch& scratch) const {
        const auto row = static_cast<size_t>(problem.dim);
        return gpu::launch_of(problem, device_, in_.get(), row, out.get(), row, scratch.memory.get(), scratch.bytes);
    }

    // Runs forward on the same operands, dO among them; backward needs O and the statistics of its rows.
    void prepare_forward(const Contract& contract, const std::vector<gpu::Kernel>& table, MemoryCount& memory) {
        const Problem forward = problem_.of_operation(kForward);
        forward_kernel_ = &kernel_for("", forward, contract, device_, table);
        o_ = Memory(memory, forward.stored_output_bytes(), purpose::kO);
        statistics_ =
            Memory(memory, static_cast<size_t>(forward.output_rows()) * sizeof(RowStatistics), purpose::kRowStatistics);
        forward_scratch_ = scratch_for(*forward_kernel_, forward, memory);
        forward_ = launch(forward, o_, forward_scratch_);
        for (size_t i = 0; i < kForward.inputs.size(); ++i)
            forward_.in[i] =
                tensor_at(problem_, problem_.operation->inputs, i, in_.get(), static_cast<size_t>(problem_.dim));
        forward_.statistics = static_cast<RowStatistics*>(statistics_.get());
    }

    Pass pass_;
    Problem problem_;
    gpu::Device device_;
    cudaStream_t stream_;
    int64_t scratch_budget_;
    Memory in_;
    Memory out_;
    Memory o_; // for backward
    Memory statistics_;
    LaunchScratch forward_scratch_;
    LaunchScratch backward_scratch_;
    const gpu::Kernel* forward_kernel_ = nullptr;
    const gpu::Kernel* backward_kernel_ = nullptr;
    gpu::Launch forward_;
    gpu::Launch backward_;
};

class GpuWorkbench : public Workbench {
public:
    explicit GpuWorkbench(const Hw4Kernel* file)
        : device_(gpu::current_device()), table_(gpu::kernels()), stream_(gpu::make_stream()) {
        if (file != nullptr) table_.push_back(gpu::kernel_of_file(*file));
    }

    std::unique_ptr<Subject> prepare(const Cell& cell, Pass pass, const CaseData& data, MemoryCount& memory) override {
        static_cast<void>(cudaGetLastError()); // from a failed cell: its row has reported it
        if (cell.impl == "naive") {
            if (naive_ == nullptr) naive_ = gpu_naive();
            const cudaStream_t stream = stream_.get();
            const Element element = cell.element;
            return std::make_unique<NaiveSubject<Memory>>(
                pass, data, *naive_, stream, memory,
                [=](const float* from, size_t count, void* to) { put(from, count, element, to, stream); },
                [=](const void* from, float* to, size_t count) { take(from, element, to, count, stream); });
        }
        const Contract& contract = *find_contract(cell.impl);
        if (contract.element != Element::float32 && cell.element != contract.element)
            throw Unsupported("the contract " + cell.impl + " takes " + name_of(contract.element) + ", not " +
                              name_of(cell.element));
        return std::make_unique<KernelSubject>(cell, pass, data, contract, device_, table_, stream_.get(), memory);
    }

    double sample(Subject& subject, int launches) override {
        HW4_CUDA(cudaEventRecord(start_.get(), stream_.get()));
        for (int i = 0; i < launches; ++i) subject.run();
        HW4_CUDA(cudaEventRecord(stop_.get(), stream_.get()));
        HW4_CUDA(cudaEventSynchronize(stop_.get()));
        float milliseconds = 0;
        HW4_CUDA(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
        return milliseconds * 1e-3 / launches;
    }

    void wait() override { HW4_CUDA(cudaStreamSynchronize(stream_.get())); }

    void flush_caches() override {
        if (flushed_.get() == nullptr) {
            int card = 0;
            int cache_bytes = 0;
            HW4_CUDA(cudaGetDevice(&card));
            HW4_CUDA(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, card));
            flushed_bytes_ = 2 * static_cast<size_t>(cache_bytes);
            flushed_ = gpu::make_scratch(flushed_bytes_);
        }
        HW4_CUDA(cudaMemsetAsync(flushed_.get(), 0, flushed_bytes_, stream_.get()));
    }

    size_t free_bytes() override { return free_on_card(); }

    // Two transfers per clock.
    double memory_rate() override {
        return 2 * 1e3 * asked(cudaDevAttrMemoryClockRate) * asked(cudaDevAttrGlobalMemoryBusWidth) / 8;
    }

    // A fused operation per lane and clock.
    double float_rate() override {
        const int lanes = device_.arch == 75 || device_.arch == 80 ? 64 : 128; // per multiprocessor
        return 2 * 1e3 * asked(cudaDevAttrClockRate) * device_.multiprocessors * lanes;
    }

    // 989 TFLOP/s of an H100 or H200 of 132 multiprocessors, at NVIDIA's clock for tensor cores.
    double half_rate() override { return device_.arch == 90 ? 4096 * 1.83e9 * device_.multiprocessors : 0; }

    std::string machine_json() override {
        int driver = 0;
        HW4_CUDA(cudaDriverGetVersion(&driver));
        const auto version = [](int number) {
            return json_string(std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10));
        };
        JsonFields fields;
        fields.add("device", json_string("gpu"));
        fields.add("name", json_string(gpu::device_name()));
        fields.add("cuda", version(CUDART_VERSION));
        fields.add("driver", version(driver));
        fields.add("multiprocessors", int64_t{device_.multiprocessors});
        return fields.text();
    }

private:
    static double asked(cudaDeviceAttr attribute) {
        int card = 0;
        int value = 0;
        HW4_CUDA(cudaGetDevice(&card));
        HW4_CUDA(cudaDeviceGetAttribute(&value, attribute, card));
        return value;
    }

    gpu::Device device_;
    std::vector<gpu::Kernel> table_; // plus the kernel of a file
    gpu::Stream stream_;
    gpu::Event start_ = gpu::make_event();
    gpu::Event stop_ = gpu::make_event();
    std::unique_ptr<NaiveAttention> naive_; // once it was asked for, as what follows
    gpu::Scratch flushed_;
    size_t flushed_bytes_ = 0;
};

} // namespace
} // namespace gpu_side

std::unique_ptr<Workbench> gpu_workbench(const Hw4Kernel* file) {
    return std::make_unique<gpu_side::GpuWorkbench>(file);
}

} // namespace hw4::bench
