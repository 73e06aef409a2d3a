// The GPU as a workbench: launches the kernels of src/gpu, and the naive baseline. Rows are dim apart, as in a tensor:
// counted memory is that of a tensor of this shape.
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/json.h"
#include "src/base/parallel.h"
#include "src/base/untouched_vector.h"
#include "src/bench/kernel_subject.h"
#include "src/bench/naive_subject.h"
#include "src/bench/workbench.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"
#include "src/gpu/slot_plan.h"

namespace hw4::bench {
namespace gpu_side {
namespace {

// ---- The GPU

size_t free_on_card() {
    size_t free = 0;
    size_t total = 0;
    HW4_CUDA(cudaMemGetInfo(&free, &total));
    return free;
}

// Counted memory of the GPU.
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

class GpuMachine {
public:
    using Memory = gpu_side::Memory;
    using Kernel = gpu::Kernel;
    using Launch = gpu::Launch;

    // Scratch memory of a launch: up to the cell's budget, or the least where memory is short.
    struct Scratch {
        Memory memory;
        size_t bytes = 0;
    };

    GpuMachine(const gpu::Device& device, const std::vector<Kernel>& table, cudaStream_t stream, int64_t scratch_budget)
        : device_(device), table_(table), stream_(stream), scratch_budget_(static_cast<size_t>(scratch_budget)) {}

    void* stream() const { return stream_; }

    // Numbers are floats on the host and in their type's bits on the GPU. Both functions return when the copy is
    // complete, after earlier work in the stream.
    void put(const float* from, size_t count, Element element, void* to) const {
        UntouchedVector<unsigned char> stored(count * bytes_of(element));
        in_pieces(count, kPieceNumbers, [&](size_t first, size_t some) {
            narrow(element, from + first, some, stored.data() + first * bytes_of(element));
        });
        HW4_CUDA(cudaMemcpyAsync(to, stored.data(), stored.size(), cudaMemcpyHostToDevice, stream_));
        HW4_CUDA(cudaStreamSynchronize(stream_));
    }
    void take(const void* from, Element element, float* to, size_t count) const {
        UntouchedVector<unsigned char> stored(count * bytes_of(element));
        HW4_CUDA(cudaMemcpyAsync(stored.data(), from, stored.size(), cudaMemcpyDeviceToHost, stream_));
        HW4_CUDA(cudaStreamSynchronize(stream_));
        in_pieces(count, kPieceNumbers, [&](size_t first, size_t some) {
            widen(element, stored.data() + first * bytes_of(element), some, to + first);
        });
    }

    // The kernel of that name in the table, or the one that hw4 takes. Throws Unsupported.
    const Kernel& kernel_for(const std::string& name, const Problem& problem, const Contract& contract) const {
        const std::string lacking = why_not(contract, problem);
        if (!lacking.empty()) throw Unsupported(lacking);
        const Kernel* const found =
            name.empty() ? gpu::choose_kernel(problem, device_, contract) : gpu::find_kernel(name, table_);
        const std::vector<Kernel> all = gpu::kernels_of(contract, *problem.operation);
        if (found == nullptr)
            throw Unsupported(all.empty() ? "no GPU kernel of this build computes " + std::string(contract.name) + " " +
                                                problem.operation->name
                                          : gpu::plan_of(all.front(), problem, device_).why_not);
        const std::string reason = gpu::plan_of(*found, problem, device_).why_not;
        if (!reason.empty()) throw Unsupported(reason);
        if (problem.operation != &kForward && loses_output(*found, problem.element))
            throw Unsupported("backward of " + std::string(contract.name) + " needs O as float32, and " +
                              name_of(problem.element) + " rounds it");
        return *found;
    }
    Scratch scratch_for(const Kernel& kernel, const Problem& problem, const char* purpose, MemoryCount& count) const {
        const gpu::Plan plan = gpu::plan_of(kernel, problem, device_);
        const size_t bytes = gpu::scratch_for(plan.scratch_bytes, plan.most_scratch, scratch_budget_, 1);
        try {
            return {Memory(count, bytes, purpose), bytes};
        } catch (const OutOfMemory&) {
            if (bytes == plan.scratch_bytes) throw;
            return {Memory(count, plan.scratch_bytes, purpose), plan.scratch_bytes};
        }
    }
    Launch launch_of(const Problem& problem, const Memory& in, const Memory& out, const Scratch& scratch) const {
        const auto row = static_cast<size_t>(problem.dim);
        return gpu::launch_of(problem, device_, in.get(), row, out.get(), row, scratch.memory.get(), scratch.bytes);
    }
    void run(const Kernel& kernel, const Launch& launch) const { kernel.launch(launch, stream_); }

private:
    gpu::Device device_;
    const std::vector<Kernel>& table_;
    cudaStream_t stream_;
    size_t scratch_budget_;
};

class GpuWorkbench : public Workbench {
public:
    explicit GpuWorkbench(const Hw4Kernel* file)
        : device_(gpu::current_device()), table_(gpu::kernels()), stream_(gpu::make_stream()) {
        if (file != nullptr) table_.push_back(gpu::kernel_of_file(*file));
    }

    std::unique_ptr<Subject> prepare(const Cell& cell, Pass pass, const CaseData& data, MemoryCount& memory) override {
        static_cast<void>(cudaGetLastError()); // from a failed cell: its row has reported it
        const GpuMachine machine(device_, table_, stream_.get(), cell.scratch);
        if (cell.impl == "naive") {
            if (naive_ == nullptr) naive_ = gpu_naive();
            return std::make_unique<NaiveSubject<GpuMachine>>(pass, data, *naive_, machine, memory);
        }
        const Contract& contract = *find_contract(cell.impl);
        if (contract.element != Element::float32 && cell.element != contract.element)
            throw Unsupported("the contract " + cell.impl + " takes " + name_of(contract.element) + ", not " +
                              name_of(cell.element));
        return std::make_unique<KernelSubject<GpuMachine>>(cell, pass, data, contract, machine, memory);
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
