// A workbench measures cells on the CPU or the GPU; this interface has no CUDA types.
#pragma once

#include <memory>
#include <string>

#include "src/base/untouched_vector.h"
#include "src/bench/cell.h"
#include "src/bench/memory_count.h"

namespace hw4::bench {

// The operands of a pass, as in a case file of its operation, with values that the cell's element type can represent.
struct CaseData {
    Problem problem;
    UntouchedVector<float> values;
};

// One pass of one implementation with its operands and all memory allocated: the timed part.
class Subject {
public:
    virtual ~Subject() = default;

    // Runs once. On a GPU it may return before the work is done.
    virtual void run() = 0;
    // The last run's output, as in a file of the pass's operation. Waits for running work.
    virtual UntouchedVector<float> output() = 0;

    std::string kernel;               // name
    std::string revision;             // of the contract; empty: without one
    size_t scratch_bytes = 0;         // of the kernel
    size_t before_backward_bytes = 0; // in use when forward is done and backward begins; 0 for forward
};

// Why a cell's pass cannot run here. Caught where it is measured, like OutOfMemory.
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
    // Seconds per run, over this many runs back to back.
    virtual double sample(Subject& subject, int launches) = 0;
    // Waits until all started work is done.
    virtual void wait() = 0;
    // Afterwards the caches contain none of the operands.
    virtual void flush_caches() = 0;
    // The bytes that a measurement may allocate.
    virtual size_t free_bytes() = 0;

    // The memory's peak rate, bytes a second; 0: unknown.
    virtual double memory_rate() { return 0; }

    // The float32 units' peak, FLOP/s; 0: unknown.
    virtual double float_rate() { return 0; }
    // The tensor cores' on dense bf16, sums in float32; 0: unknown.
    virtual double half_rate() { return 0; }

    virtual std::string machine_json() = 0; // an object: the measured machine
};

// Computes with this many threads; 0: as many as the machine offers.
std::unique_ptr<Workbench> cpu_workbench(int threads);
// Has the kernel of `file`, unless null, beside the table's kernels. Throws Error (no_gpu).
std::unique_ptr<Workbench> gpu_workbench(const Hw4Kernel* file = nullptr);

// Prints the GPU's start-up cost for a process, in milliseconds, step by step. Throws Error (no_gpu).
void say_gpu_start_up();

} // namespace hw4::bench
