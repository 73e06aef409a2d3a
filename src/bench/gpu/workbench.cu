// The card as a workbench: the kernels of src/gpu by their launches, and the naive baseline by cuBLAS's products. Rows
// are dim apart, as in a tensor: what is counted is what a tensor of that shape takes.
#include "src/bench/workbench.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "src/base/json.h"
#include "src/bench/event_timer.h"
#include "src/bench/gpu/cublas.h"
#include "src/bench/gpu/nvml.h"
#include "src/bench/gpu/softmax.h"
#include "src/bench/gpu/staged_copies.h"
#include "src/bench/gpu/subject_parts.h"
#include "src/bench/naive.h"
#include "src/gpu/slot_plan.h"

namespace hw4::bench {
namespace gpu_side {
namespace {

// Backward has O and the statistics of its rows from a forward that was done before.
void bring_forward(gpu::Launch& backward, const gpu::Launch& forward) {
    backward.forward_out = forward.out[0];
    backward.statistics = forward.statistics;
}

// Scratch memory of a launch: up to what hw4 gives all streams of a run, or the least where there is not that much.
struct LaunchScratch {
    Memory memory;
    size_t bytes = 0;

    LaunchScratch() = default;
    LaunchScratch(const gpu::Plan& plan, MemoryCount& count, const char* purpose)
        : bytes(gpu::scratch_for(plan.scratch_bytes, plan.most_scratch, EngineOptions().scratch_budget, 1)) {
        try {
            memory = Memory(count, bytes, purpose);
        } catch (const OutOfMemory&) {
            if (bytes == plan.scratch_bytes) throw;
            bytes = plan.scratch_bytes;
            memory = Memory(count, bytes, purpose);
        }
    }
};

// A contract's kernels, on operands of the cell's element.
class KernelSubject : public Subject {
public:
    KernelSubject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract,
                  const gpu::Device& device, cudaStream_t stream, StagedCopies& copies, MemoryCount& memory)
        : pass_(pass), problem_(data.problem), device_(device), stream_(stream), copies_(copies) {
        const gpu::Kernel& chosen = kernel_for(cell.kernel, problem_, contract, device_);
        kernel = chosen.name;
        if (pass != Pass::forward && loses_output(chosen, problem_.element))
            throw Unsupported("backward of " + cell.impl + " needs O as float32, and " + name_of(cell.element) +
                              " rounds it");
        revision = contract.revision_of(*problem_.operation);
        in_ = Memory(memory, problem_.stored_input_bytes(), purpose::kInputs);
        copies_.put(data.values.data(), {problem_.element, in_.get(), data.values.size()});
        if (pass == Pass::forward) {
            forward_kernel_ = &chosen;
            out_ = Memory(memory, problem_.stored_output_bytes(), purpose::kO);
            forward_scratch_ = scratch_for(chosen, problem_, memory);
            forward_ = launch(problem_, out_, forward_scratch_);
            return;
        }
        backward_kernel_ = &chosen;
        prepare_forward(contract, memory);
        before_backward_bytes = memory.in_use();
        out_ = Memory(memory, problem_.stored_output_bytes(), purpose::kGradients);
        backward_scratch_ = scratch_for(chosen, problem_, memory);
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
        HW4_CUDA(cudaStreamSynchronize(stream_));
        copies_.get({problem_.element, out_.get(), values.size()}, values.data());
        return values;
    }

private:
    LaunchScratch scratch_for(const gpu::Kernel& of, const Problem& problem, MemoryCount& memory) const {
        return {gpu::plan_of(of, problem, device_), memory,
                problem.operation == &kForward ? purpose::kForwardScratch : purpose::kBackwardScratch};
    }

    gpu::Launch launch(const Problem& problem, const Memory& out, const LaunchScratch& scratch) const {
        const auto row = static_cast<size_t>(problem.dim);
        return gpu::launch_of(problem, device_, in_.get(), row, out.get(), row, scratch.memory.get(), scratch.bytes);
    }

    // Of the same operands, dO among them; O and the statistics of its rows stay for backward.
    void prepare_forward(const Contract& contract, MemoryCount& memory) {
        const Problem forward = problem_.of_operation(kForward);
        forward_kernel_ = &kernel_for("", forward, contract, device_);
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
    StagedCopies& copies_;
    Memory in_;
    Memory out_;
    Memory o_; // of backward
    Memory statistics_;
    LaunchScratch forward_scratch_;
    LaunchScratch backward_scratch_;
    const gpu::Kernel* forward_kernel_ = nullptr;
    const gpu::Kernel* backward_kernel_ = nullptr;
    gpu::Launch forward_;
    gpu::Launch backward_;
};

// All scores in memory. Every operand is a tensor of its own, [batch][head][row][column], whose heads follow one
// another through all batches, so that one call multiplies all.
class NaiveSubject : public Subject {
public:
    NaiveSubject(const Cell& cell, Pass pass, const CaseData& data, const Cublas& cublas, cudaStream_t stream,
                 StagedCopies& copies, MemoryCount& memory)
        : pass_(pass), problem_(data.problem), element_(cell.element), cublas_(cublas), stream_(stream),
          copies_(copies) {
        kernel = "naive";
        for (size_t i = 0; i < problem_.operation->inputs.size(); ++i) in_[i] = uploaded(data, i, memory);
        o_ = Memory(memory, tensor_bytes(), purpose::kO);
        weights_ = Memory(memory, naive_scores(problem_) * bytes_of(element_), purpose::kScores);
        if (pass == Pass::forward) return;
        before_backward_bytes = memory.in_use();
        gradients_ = Memory(memory, naive_scores(problem_) * bytes_of(element_), purpose::kScoreGradients);
        for (size_t i = 0; i < kBackward.outputs.size(); ++i)
            out_[i] = Memory(memory, tensor_bytes(), kBackward.outputs[i].name);
        if (pass == Pass::backward) forward();
    }

    void run() override {
        if (pass_ != Pass::backward) forward();
        if (pass_ != Pass::forward) backward();
    }

    UntouchedVector<float> output() override {
        UntouchedVector<float> values(problem_.floats_in(problem_.output_rows()));
        HW4_CUDA(cudaStreamSynchronize(stream_));
        for (size_t i = 0; i < problem_.operation->outputs.size(); ++i)
            download(pass_ == Pass::forward ? o_ : out_[i], i, values);
        return values;
    }

private:
    // Of a batch of an operand; all have as many rows.
    size_t batch_values() const { return problem_.floats_in(problem_.heads * problem_.queries); }
    CardRows batch_of(const Memory& tensor, int64_t batch) const {
        const size_t bytes = batch_values() * bytes_of(element_);
        return {element_, static_cast<char*>(tensor.get()) + static_cast<size_t>(batch) * bytes, batch_values()};
    }
    size_t tensor_bytes() const { return static_cast<size_t>(problem_.batches) * batch_values() * bytes_of(element_); }

    Memory uploaded(const CaseData& data, size_t operand, MemoryCount& memory) {
        Memory tensor(memory, tensor_bytes(), problem_.operation->inputs[operand].name);
        for (int64_t batch = 0; batch < problem_.batches; ++batch) {
            const size_t place =
                static_cast<size_t>(batch) * data.problem.batch_input_floats() + operand * batch_values();
            copies_.put(data.values.data() + place, batch_of(tensor, batch));
        }
        return tensor;
    }

    void download(const Memory& tensor, size_t operand, UntouchedVector<float>& values) {
        for (int64_t batch = 0; batch < problem_.batches; ++batch) {
            const size_t place = static_cast<size_t>(batch) * problem_.batch_output_floats() + operand * batch_values();
            copies_.get(batch_of(tensor, batch), values.data() + place);
        }
    }

    Scores shape() const {
        return {element_, problem_.units() * problem_.queries, problem_.queries, problem_.keys, problem_.mask};
    }
    float scale() const { return 1.0f / std::sqrt(static_cast<float>(problem_.dim)); }

    // X Y^T of two tensors, a score for each pair of rows.
    void pairs(const Memory& x, const Memory& y, const Memory& to, float factor) const {
        cublas_.multiply({problem_.queries, problem_.keys, problem_.dim, x.get(), false, y.get(), true, to.get(),
                          factor, problem_.units()},
                         element_, stream_);
    }
    // S Y, or S^T Y, of scores and a tensor.
    void rows(const Memory& scores, bool transposed, const Memory& y, const Memory& to, float factor) const {
        cublas_.multiply({problem_.queries, problem_.dim, problem_.keys, scores.get(), transposed, y.get(), false,
                          to.get(), factor, problem_.units()},
                         element_, stream_);
    }

    void forward() const {
        pairs(in_[0], in_[1], weights_, scale());
        launch_softmax(shape(), weights_.get(), stream_);
        rows(weights_, false, in_[2], o_, 1);
    }

    void backward() const {
        rows(weights_, true, in_[3], out_[2], 1); // dV = P^T dO
        pairs(in_[3], in_[2], gradients_, 1);     // dP = dO V^T
        launch_softmax_gradient(shape(), weights_.get(), gradients_.get(), stream_);
        rows(gradients_, false, in_[1], out_[0], scale()); // dQ = dS K
        rows(gradients_, true, in_[0], out_[1], scale());  // dK = dS^T Q
    }

    Pass pass_;
    Problem problem_;
    Element element_;
    const Cublas& cublas_;
    cudaStream_t stream_;
    StagedCopies& copies_;
    Memory in_[kMostInputs];
    Memory o_;
    Memory weights_;
    Memory gradients_;
    Memory out_[kMostOutputs];
};

class GpuWorkbench : public Workbench {
public:
    GpuWorkbench() : device_(gpu::current_device()), stream_(gpu::make_stream()) {}

    std::unique_ptr<Subject> prepare(const Cell& cell, Pass pass, const CaseData& data, MemoryCount& memory) override {
        static_cast<void>(cudaGetLastError()); // of a cell that failed: its row has told it
        if (!copies_) copies_.emplace();
        if (cell.impl == "naive") {
            if (!cublas_) cublas_.emplace();
            return std::make_unique<NaiveSubject>(cell, pass, data, *cublas_, stream_.get(), *copies_, memory);
        }
        const Contract& contract = *find_contract(cell.impl);
        if (contract.element != Element::float32 && cell.element != contract.element)
            throw Unsupported("the contract " + cell.impl + " takes " + name_of(contract.element) + ", not " +
                              name_of(cell.element));
        return std::make_unique<KernelSubject>(cell, pass, data, contract, device_, stream_.get(), *copies_, memory);
    }

    double sample(Subject& subject, int launches) override {
        const auto begin = [&] {
            for (int i = 0; i < launches; ++i) subject.run();
        };
        return timer_.seconds_of(stream_.get(), begin) / launches;
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

    CardState state_under_load(Subject& subject, double seconds) override {
        if (!nvml_.knows()) return {};
        constexpr double kBusySeconds = 0.1; // power is a mean over some time
        const int launches = static_cast<int>(std::clamp(kBusySeconds / seconds, 1.0, 1000.0));
        const auto begin = [&] {
            for (int i = 0; i < launches; ++i) subject.run();
        };
        begin();
        wait();
        begin();
        const CardState state = nvml_.state(); // after so much work, and in the midst of it
        wait();
        return state;
    }

    size_t free_bytes() override { return memory_of_card().free; }
    size_t driver_bytes() override { return memory_of_card().taken(); }

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
    gpu::Device device_;
    gpu::Stream stream_;
    gpu::EventTimer timer_;
    Nvml nvml_;
    std::optional<Cublas> cublas_; // once it was asked for, as what follows
    std::optional<StagedCopies> copies_;
    gpu::Scratch flushed_;
    size_t flushed_bytes_ = 0;
};

} // namespace
} // namespace gpu_side

std::unique_ptr<Workbench> gpu_workbench() { return std::make_unique<gpu_side::GpuWorkbench>(); }

} // namespace hw4::bench
