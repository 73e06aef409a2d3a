// The processor as a workbench: the kernels of src/cpu by their launches, and the naive baseline.
#include <fstream>
#include <limits>

#include "src/base/error.h"
#include "src/base/json.h"
#include "src/base/parallel.h"
#include "src/bench/naive.h"
#include "src/bench/workbench.h"
#include "src/cpu/aligned_memory.h"
#include "src/cpu/kernels.h"

#include <algorithm>
#include <chrono>

namespace hw4::bench {
namespace {

constexpr size_t kFlushedBytes = size_t{256} << 20; // more than any last cache

// Memory of the host that is counted.
class Floats {
public:
    Floats() = default;
    Floats(MemoryCount& memory, size_t count, const char* purpose)
        : count_(count), counted_(memory, count * sizeof(float), purpose, [&] {
              if (count > 0) memory_ = cpu::allocate_aligned(count);
          }) {}
    float* get() const { return memory_.get(); }
    size_t bytes() const { return count_ * sizeof(float); }

private:
    size_t count_ = 0;
    cpu::AlignedFloats memory_; // before what counts it
    Counted counted_;
};

void copy_by_all(const float* from, size_t count, float* to) {
    in_pieces(count, kPieceNumbers, [&](size_t first, size_t piece) { std::copy_n(from + first, piece, to + first); });
}

// A copy of the case's operands.
Floats operands_of(const CaseData& data, MemoryCount& memory) {
    Floats in(memory, data.values.size(), purpose::kInputs);
    copy_by_all(data.values.data(), data.values.size(), in.get());
    return in;
}

size_t output_floats(const Problem& problem) { return problem.floats_in(problem.output_rows()); }

UntouchedVector<float> output_in(const Floats& memory, const Problem& problem) {
    UntouchedVector<float> output(output_floats(problem));
    copy_by_all(memory.get(), output.size(), output.data());
    return output;
}

// A contract's kernels.
class KernelSubject : public Subject {
public:
    KernelSubject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract, int threads,
                  MemoryCount& memory)
        : pass_(pass), problem_(data.problem), in_(operands_of(data, memory)) {
        revision = contract.revision_of(*problem_.operation);
        if (pass == Pass::forward) {
            forward_kernel_ = &kernel_for(cell.kernel, problem_, contract);
            out_ = Floats(memory, output_floats(problem_), purpose::kO);
            forward_scratch_ = scratch_for(*forward_kernel_, problem_, threads, memory);
            scratch_bytes = forward_scratch_.bytes();
            forward_ = cpu::launch_of(problem_, in_.get(), out_.get(), forward_scratch_.get(), threads);
            forward_.crew = &crew_;
            kernel = forward_kernel_->name;
            return;
        }
        backward_kernel_ = &kernel_for(cell.kernel, problem_, contract);
        prepare_forward(contract, threads, memory);
        before_backward_bytes = memory.in_use();
        out_ = Floats(memory, output_floats(problem_), purpose::kGradients);
        backward_scratch_ = scratch_for(*backward_kernel_, problem_, threads, memory);
        scratch_bytes = backward_scratch_.bytes();
        backward_ = cpu::launch_of(problem_, in_.get(), out_.get(), backward_scratch_.get(), threads);
        backward_.crew = &crew_;
        backward_.statistics = forward_.statistics;
        const Matrix<float>& o = forward_.out[0];
        backward_.forward_out = {o.at, o.row, o.head, o.batch};
        kernel = backward_kernel_->name;
        if (pass == Pass::backward) run_forward();
    }

    void run() override {
        if (pass_ != Pass::backward) run_forward();
        if (pass_ != Pass::forward) backward_kernel_->launch(*backward_kernel_, backward_);
    }

    UntouchedVector<float> output() override { return output_in(out_, problem_); }

private:
    static const cpu::Kernel& kernel_for(const std::string& name, const Problem& problem, const Contract& contract) {
        const std::string lacking = why_not(contract, problem);
        if (!lacking.empty()) throw Unsupported(lacking);
        try {
            return cpu::choose_kernel(name, problem, contract);
        } catch (const Error& error) {
            throw Unsupported(error.what());
        }
    }

    static Floats scratch_for(const cpu::Kernel& kernel, const Problem& problem, int threads, MemoryCount& memory) {
        return {memory, cpu::plan_of(kernel, problem, threads).scratch_bytes / sizeof(float),
                problem.operation == &kForward ? purpose::kForwardScratch : purpose::kBackwardScratch};
    }

    // Of the same operands, dO among them; O and the statistics of its rows stay for backward.
    void prepare_forward(const Contract& contract, int threads, MemoryCount& memory) {
        const Problem forward = problem_.of_operation(kForward);
        forward_kernel_ = &kernel_for("", forward, contract);
        o_ = Floats(memory, output_floats(forward), purpose::kO);
        constexpr size_t kStatisticsFloats = sizeof(RowStatistics) / sizeof(float);
        statistics_ =
            Floats(memory, static_cast<size_t>(forward.output_rows()) * kStatisticsFloats, purpose::kRowStatistics);
        forward_scratch_ = scratch_for(*forward_kernel_, forward, threads, memory);
        forward_ = cpu::launch_of(forward, in_.get(), o_.get(), forward_scratch_.get(), threads);
        forward_.crew = &crew_;
        const auto row = static_cast<size_t>(problem_.dim);
        const float* const in = in_.get();
        for (size_t i = 0; i < kForward.inputs.size(); ++i)
            forward_.in[i] = operand_at(problem_, problem_.operation->inputs, i, in, row);
        forward_.statistics = reinterpret_cast<RowStatistics*>(statistics_.get());
    }

    void run_forward() const { forward_kernel_->launch(*forward_kernel_, forward_); }

    Pass pass_;
    Problem problem_;
    Crew crew_; // of all runs
    Floats in_;
    Floats out_;
    Floats o_; // of backward
    Floats statistics_;
    Floats forward_scratch_;
    Floats backward_scratch_;
    const cpu::Kernel* forward_kernel_ = nullptr;
    const cpu::Kernel* backward_kernel_ = nullptr;
    cpu::Launch forward_;
    cpu::Launch backward_;
};

class NaiveSubject : public Subject {
public:
    NaiveSubject(Pass pass, const CaseData& data, int threads, MemoryCount& memory)
        : pass_(pass), problem_(data.problem), in_(operands_of(data, memory)), o_(memory, o_floats(), purpose::kO),
          weights_(memory, naive_scores(problem_), purpose::kScores) {
        kernel = "naive";
        operands_.problem = problem_;
        operands_.threads = threads;
        operands_.crew = &crew_;
        operands_.q = input(0);
        operands_.k = input(1);
        operands_.v = input(2);
        operands_.weights = weights_.get();
        operands_.o = operand_at(problem_.of_operation(kForward), kForward.outputs, 0, o_.get(), row());
        if (pass == Pass::forward) return;
        before_backward_bytes = memory.in_use();
        gradients_ = Floats(memory, naive_scores(problem_), purpose::kScoreGradients);
        out_ = Floats(memory, output_floats(problem_), purpose::kGradients);
        operands_.d_o = input(3);
        operands_.gradients = gradients_.get();
        Matrix<float>* const gradients[] = {&operands_.dq, &operands_.dk, &operands_.dv};
        for (size_t i = 0; i < kBackward.outputs.size(); ++i)
            *gradients[i] = operand_at(problem_, kBackward.outputs, i, out_.get(), row());
        if (pass == Pass::backward) naive_forward(operands_);
    }

    void run() override {
        if (pass_ != Pass::backward) naive_forward(operands_);
        if (pass_ != Pass::forward) naive_backward(operands_);
    }

    UntouchedVector<float> output() override { return output_in(pass_ == Pass::forward ? o_ : out_, problem_); }

private:
    size_t row() const { return static_cast<size_t>(problem_.dim); }
    size_t o_floats() const { return output_floats(problem_.of_operation(kForward)); }
    Matrix<const float> input(size_t index) const {
        const float* const in = in_.get();
        return operand_at(problem_, problem_.operation->inputs, index, in, row());
    }

    Pass pass_;
    Problem problem_;
    Crew crew_; // of all runs
    Floats in_;
    Floats o_;
    Floats weights_;
    Floats gradients_;
    Floats out_;
    NaiveOperands operands_;
};

// What the system could give without taking it from anybody; as much as there could be where it does not say.
size_t available_bytes() {
    std::ifstream information("/proc/meminfo");
    for (std::string word; information >> word;) {
        size_t kibibytes = 0;
        if (word == "MemAvailable:" && information >> kibibytes) return kibibytes * 1024;
    }
    return std::numeric_limits<size_t>::max();
}

// "AMD EPYC 9654": as the system names it; on ARM by numbers, "implementer 0x41 part 0xd0c"; empty where it does not.
std::string processor_name() {
    std::ifstream information("/proc/cpuinfo");
    std::string implementer;
    for (std::string line; std::getline(information, line);) {
        const size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const auto names = [&](const char* field) { return line.rfind(field, 0) == 0; };
        const std::string value = line.substr(colon + 2);
        if (names("model name")) return value;
        if (names("CPU implementer")) implementer = value;
        if (names("CPU part")) return "implementer " + implementer + " part " + value;
    }
    return "";
}

class CpuWorkbench : public Workbench {
public:
    explicit CpuWorkbench(int threads) : threads_(threads > 0 ? threads : available_processors()) {}

    std::unique_ptr<Subject> prepare(const Cell& cell, Pass pass, const CaseData& data, MemoryCount& memory) override {
        const Contract* const contract = cell.impl == "naive" ? nullptr : find_contract(cell.impl);
        const Element taken = contract == nullptr ? Element::float32 : contract->element;
        if (cell.element != taken)
            throw Unsupported(cell.impl + " on the CPU takes " + name_of(taken) + ", not " + name_of(cell.element));
        if (contract == nullptr) return std::make_unique<NaiveSubject>(pass, data, threads_, memory);
        return std::make_unique<KernelSubject>(cell, pass, data, *contract, threads_, memory);
    }

    double sample(Subject& subject, int launches) override {
        using Clock = std::chrono::steady_clock;
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < launches; ++i) subject.run();
        return std::chrono::duration<double>(Clock::now() - start).count() / launches;
    }

    void wait() override {} // every run has ended when it returns

    void flush_caches() override {
        if (flushed_.empty()) flushed_.resize(kFlushedBytes);
        std::fill(flushed_.begin(), flushed_.end(), ++flushes_);
    }

    size_t free_bytes() override { return available_bytes(); }

    std::string machine_json() override {
        JsonFields fields;
        fields.add("device", json_string("cpu"));
        fields.add("name", json_string(processor_name()));
        fields.add("processors", int64_t{available_processors()}); // threads are of the cell
        return fields.text();
    }

private:
    int threads_;
    std::vector<unsigned char> flushed_;
    unsigned char flushes_ = 0;
};

} // namespace

std::unique_ptr<Workbench> cpu_workbench(int threads) { return std::make_unique<CpuWorkbench>(threads); }

} // namespace hw4::bench
