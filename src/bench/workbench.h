// Where cells are measured, the CPU or the GPU, as what measures sees it: no CUDA type here.
#pragma once

#include <memory>
#include <string>

#include "src/base/untouched_vector.h"
#include "src/bench/cell.h"
#include "src/bench/memory_count.h"

namespace hw4::bench {

// The operands of a pass, as a case file of its operation has them, in the values of the cell's element type.
struct CaseData {
    Problem problem;
    UntouchedVector<float> values;
};

// One pass of one implementation with its operands and all memory in place: what is timed.
class Subject {
public:
    virtual ~Subject() = default;

    // Once. On a GPU it may return before that is done.
    virtual void run() = 0;
    // What the last run gave, as a file of the pass's operation has it. Ends what is still going on.
    virtual UntouchedVector<float> output() = 0;

    std::string kernel;               // by its name
    std::string revision;             // of the contract; empty: of none
    size_t scratch_bytes = 0;         // of that kernel
    size_t before_backward_bytes = 0; // in use when forward is done and backward begins; 0 for forward
};

// Why a cell's pass cannot run here. Caught where it is measured, as OutOfMemory is.
struct Unsupported : std::exception {
    explicit Unsupported(std::string why) : reason(std::move(why)) {}
    const char* what() const noexcept override { return reason.c_str(); }

    std::string reason;
};

class Workbench {
public:
    virtual ~Workbench() = default;

    // Throws Unsupported, OutOfMemory, Error.
    virtual std::unique_ptr<Subject> prepare(const Cell& cell, Pass pass, const CaseData& data,
                                             MemoryCount& memory) = 0;
    // Seconds of each of so many runs, back to back.
    virtual double sample(Subject& subject, int launches) = 0;
    // Until all that was begun is done.
    virtual void wait() = 0;
    // What is in the caches is not of the operands after that.
    virtual void flush_caches() = 0;
    // Bytes that a measurement may take.
    virtual size_t free_bytes() = 0;

    // What the memory can give, bytes a second; 0: not known.
    virtual double memory_rate() { return 0; }

    // What the units for float32 can do, FLOP/s; 0: not known.
    virtual double float_rate() { return 0; }

    virtual std::string machine_json() = 0; // an object: what the numbers were measured on
};

// So many threads, 0: as many as the machine offers.
std::unique_ptr<Workbench> cpu_workbench(int threads);
// With a kernel of a file of its own beside those of the table, or none. Throws Error (no_gpu).
std::unique_ptr<Workbench> gpu_workbench(const Hw4Kernel* file = nullptr);

// Prints what a process pays for the GPU before its work, in milliseconds, step by step. Throws Error (no_gpu).
void say_gpu_start_up();

} // namespace hw4::bench
