// The processor as a workbench: launches the kernels of src/cpu, and the naive baseline.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/json.h"
#include "src/base/parallel.h"
#include "src/bench/kernel_subject.h"
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
        : counted_(memory, bytes, purpose, [&] {
              if (bytes > 0) memory_ = cpu::allocate_bytes(bytes);
          }) {}
    void* get() const { return memory_.get(); }

private:
    cpu::AlignedMemory memory_; // declared before what counts it
    Counted counted_;
};

class CpuMachine {
public:
    using Memory = bench::Memory;
    using Kernel = cpu::Kernel;
    using Launch = cpu::Launch;
    struct Scratch {
        Memory memory;
        size_t bytes = 0;
    };

    explicit CpuMachine(int threads) : threads_(threads) {}

    static void* stream() { return nullptr; }
    static void put(const float* from, size_t count, Element element, void* to) {
        in_pieces(count, kPieceNumbers, [&](size_t first, size_t some) {
            narrow(element, from + first, some, static_cast<unsigned char*>(to) + first * bytes_of(element));
        });
    }
    static void take(const void* from, Element element, float* to, size_t count) {
        in_pieces(count, kPieceNumbers, [&](size_t first, size_t some) {
            widen(element, static_cast<const unsigned char*>(from) + first * bytes_of(element), some, to + first);
        });
    }

    // Throws Unsupported.
    static const Kernel& kernel_for(const std::string& name, const Problem& problem, const Contract& contract) {
        const std::string lacking = why_not(contract, problem);
        if (!lacking.empty()) throw Unsupported(lacking);
        try {
            return cpu::choose_kernel(name, problem, contract);
        } catch (const Error& error) {
            throw Unsupported(error.what());
        }
    }
    Scratch scratch_for(const Kernel& kernel, const Problem& problem, const char* purpose, MemoryCount& count) const {
        const size_t bytes = cpu::plan_of(kernel, problem, threads_).scratch_bytes;
        return {Memory(count, bytes, purpose), bytes};
    }
    Launch launch_of(const Problem& problem, const Memory& in, const Memory& out, const Scratch& scratch) const {
        Launch launch = cpu::launch_of(problem, in.get(), out.get(), scratch.memory.get(), threads_);
        launch.crew = crew_.get();
        return launch;
    }
    static void run(const Kernel& kernel, const Launch& launch) { kernel.launch(launch); }

private:
    int threads_;
    std::unique_ptr<Crew> crew_ = std::make_unique<Crew>(); // for all runs
};

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
            return std::make_unique<NaiveSubject<CpuMachine>>(pass, data, *naive_, CpuMachine(threads_), memory);
        return std::make_unique<KernelSubject<CpuMachine>>(cell, pass, data, *contract, CpuMachine(threads_), memory);
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

    // What the system could give without swapping.
    size_t free_bytes() override {
        return reported_bytes("/proc/meminfo", "MemAvailable:", std::numeric_limits<size_t>::max());
    }

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
