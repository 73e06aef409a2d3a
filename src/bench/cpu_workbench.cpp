// The processor as a workbench: launches the kernels of src/cpu, and the naive baseline.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>

#include "src/base/error.h"
#include "src/base/json.h"
#include "src/base/parallel.h"
#include "src/bench/naive_subject.h"
#include "src/bench/workbench.h"
#include "src/cpu/aligned_memory.h"
#include "src/cpu/kernels.h"

namespace hw4::bench {
namespace {

constexpr size_t kFlushedBytes = size_t{256} << 20; // more than any last-level cache

// Counted host memory.
class Memory {
public:
    Memory() = default;
    Memory(MemoryCount& memory, size_t bytes, const char* purpose)
        : size_(bytes), counted_(memory, bytes, purpose, [&] {
              if (bytes > 0) memory_ = cpu::allocate_bytes(bytes);
          }) {}
    void* get() const { return memory_.get(); }
    unsigned char* bytes() const { return static_cast<unsigned char*>(memory_.get()); }
    size_t size() const { return size_; }

private:
    size_t size_ = 0;
    cpu::AlignedMemory memory_; // declared before what counts it
    Counted counted_;
};

// A copy of the case's operands, in the file's element type.
Memory operands_of(const CaseData& data, MemoryCount& memory) {
    const Element element = data.problem.element;
    Memory in(memory, data.values.size() * bytes_of(element), purpose::kInputs);
    in_pieces(data.values.size(), kPieceNumbers, [&](size_t first, size_t count) {
        narrow(element, data.values.data() + first, count, in.bytes() + first * bytes_of(element));
    });
    return in;
}

UntouchedVector<float> output_in(const Memory& memory, const Problem& problem) {
    UntouchedVector<float> output(problem.floats_in(problem.output_rows()));
    in_pieces(output.size(), kPieceNumbers, [&](size_t first, size_t count) {
        widen(problem.element, memory.bytes() + first * bytes_of(problem.element), count, output.data() + first);
    });
    return output;
}

// The kernels of a contract.
class KernelSubject : public Subject {
public:
    KernelSubject(const Cell& cell, Pass pass, const CaseData& data, const Contract& contract, int threads,
                  MemoryCount& memory)
        : pass_(pass), problem_(data.problem), in_(operands_of(data, memory)) {
        revision = contract.revision_of(*problem_.operation);
        if (pass == Pass::forward) {
            forward_kernel_ = &kernel_for(cell.kernel, problem_, contract);
            out_ = Memory(memory, problem_.stored_output_bytes(), purpose::kO);
            forward_scratch_ = scratch_for(*forward_kernel_, problem_, threads, memory);
            scratch_bytes = forward_scratch_.size();
            forward_ = cpu::launch_of(problem_, in_.get(), out_.get(), forward_scratch_.get(), threads);
            forward_.crew = &crew_;
            kernel = forward_kernel_->name;
            return;
        }
        backward_kernel_ = &kernel_for(cell.kernel, problem_, contract);
        prepare_forward(contract, threads, memory);
        before_backward_bytes = memory.in_use();
        out_ = Memory(memory, problem_.stored_output_bytes(), purpose::kGradients);
        backward_scratch_ = scratch_for(*backward_kernel_, problem_, threads, memory);
        scratch_bytes = backward_scratch_.size();
        backward_ = cpu::launch_of(problem_, in_.get(), out_.get(), backward_scratch_.get(), threads);
        backward_.crew = &crew_;
        backward_.statistics = forward_.statistics;
        backward_.forward_out = forward_.out[0];
        kernel = backward_kernel_->name;
        if (pass == Pass::backward) run_forward();
    }

    void run() override {
        if (pass_ != Pass::backward) run_forward();
        if (pass_ != Pass::forward) backward_kernel_->launch(backward_);
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

    static Memory scratch_for(const cpu::Kernel& kernel, const Problem& problem, int threads, MemoryCount& memory) {
        return {memory, cpu::plan_of(kernel, problem, threads).scratch_bytes,
                problem.operation == &kForward ? purpose::kForwardScratch : purpose::kBackwardScratch};
    }

    // Runs forward on the same operands, dO among them; backward needs O and the statistics of its rows.
    void prepare_forward(const Contract& contract, int threads, MemoryCount& memory) {
        const Problem forward = problem_.of_operation(kForward);
        forward_kernel_ = &kernel_for("", forward, contract);
        o_ = Memory(memory, forward.stored_output_bytes(), purpose::kO);
        statistics_ =
            Memory(memory, static_cast<size_t>(forward.output_rows()) * sizeof(RowStatistics), purpose::kRowStatistics);
        forward_scratch_ = scratch_for(*forward_kernel_, forward, threads, memory);
        forward_ = cpu::launch_of(forward, in_.get(), o_.get(), forward_scratch_.get(), threads);
        forward_.crew = &crew_;
        const auto row = static_cast<size_t>(problem_.dim);
        for (size_t i = 0; i < kForward.inputs.size(); ++i)
            forward_.in[i] = tensor_at(problem_, problem_.operation->inputs, i, in_.get(), row);
        forward_.statistics = static_cast<RowStatistics*>(statistics_.get());
    }

    void run_forward() const { forward_kernel_->launch(forward_); }

    Pass pass_;
    Problem problem_;
    Crew crew_; // for all runs
    Memory in_;
    Memory out_;
    Memory o_; // for backward
    Memory statistics_;
    Memory forward_scratch_;
    Memory backward_scratch_;
    const cpu::Kernel* forward_kernel_ = nullptr;
    const cpu::Kernel* backward_kernel_ = nullptr;
    cpu::Launch forward_;
    cpu::Launch backward_;
};

// The memory that the system could give without swapping; the largest number where it does not report it.
size_t available_bytes() {
    std::ifstream information("/proc/meminfo");
    for (std::string word; information >> word;) {
        size_t kibibytes = 0;
        if (word == "MemAvailable:" && information >> kibibytes) return kibibytes * 1024;
    }
    return std::numeric_limits<size_t>::max();
}

// "AMD EPYC 9654", the system's name; on ARM numbers, "implementer 0x41 part 0xd0c"; empty where it reports none.
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
    explicit CpuWorkbench(int threads)
        : threads_(threads > 0 ? threads : available_processors()), naive_(cpu_naive(threads_)) {}

    std::unique_ptr<Subject> prepare(const Cell& cell, Pass pass, const CaseData& data, MemoryCount& memory) override {
        const Contract* const contract = cell.impl == "naive" ? nullptr : find_contract(cell.impl);
        const Element taken = contract == nullptr ? Element::float32 : contract->element;
        if (cell.element != taken)
            throw Unsupported(cell.impl + " on the CPU takes " + name_of(taken) + ", not " + name_of(cell.element));
        if (contract == nullptr)
            return std::make_unique<NaiveSubject<Memory>>(
                pass, data, *naive_, nullptr, memory,
                [](const float* from, size_t count, void* to) { std::memcpy(to, from, count * sizeof(float)); },
                [](const void* from, float* to, size_t count) { std::memcpy(to, from, count * sizeof(float)); });
        return std::make_unique<KernelSubject>(cell, pass, data, *contract, threads_, memory);
    }

    double sample(Subject& subject, int launches) override {
        using Clock = std::chrono::steady_clock;
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < launches; ++i) subject.run();
        return std::chrono::duration<double>(Clock::now() - start).count() / launches;
    }

    void wait() override {} // every run ends before it returns

    void flush_caches() override {
        if (flushed_.empty()) flushed_.resize(kFlushedBytes);
        std::fill(flushed_.begin(), flushed_.end(), ++flushes_);
    }

    size_t free_bytes() override { return available_bytes(); }

    std::string machine_json() override {
        JsonFields fields;
        fields.add("device", json_string("cpu"));
        fields.add("name", json_string(processor_name()));
        fields.add("processors", int64_t{available_processors()}); // cells have the threads
        return fields.text();
    }

private:
    int threads_;
    std::unique_ptr<NaiveAttention> naive_;
    std::vector<unsigned char> flushed_;
    unsigned char flushes_ = 0;
};

} // namespace

std::unique_ptr<Workbench> cpu_workbench(int threads) { return std::make_unique<CpuWorkbench>(threads); }

} // namespace hw4::bench
