// An engine, the CPU or the GPU, as the pipeline sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/contracts/contract.h"
#include "src/problem/problem.h"
#include "src/run/copies.h"
#include "src/run/timeline.h"

struct Hw4Kernel; // src/gpu/hw4_kernel.h

namespace hw4 {

struct KernelInfo {
    std::string name;
    std::string idea;
    const Operation* does = &kForward;
    const Contract* under = &kF32;
    std::string why_not_here; // the reason why this machine cannot run it; empty: none known
};

// Throws Error (usage) where a kernel and another contract than the kernel's are asked for.
void refuse_other_contract(const std::string& kernel, const Contract& of_kernel, const Contract& asked);

struct EngineOptions {
    const Contract* contract = &kF32;
    std::string kernel;                     // empty: the engine chooses
    const Hw4Kernel* kernel_file = nullptr; // a kernel from a file, for the GPU; null: none
    int streams = 4;
    Copies copies = Copies::two_d;
    int card = 0;                            // among the machine's GPUs; counts past the last start again
    int threads = 0;                         // 0: as many as the machine offers
    int64_t chunk_batches = 0;               // 0: chosen from the problem
    int64_t queries_at_once = 0;             // 0: chosen from the problem
    bool statistics = false;                 // also compute them for every output row
    size_t scratch_budget = size_t{4} << 30; // on the GPU, for all streams: only makes kernels faster
};

// What an engine is made for: the first case that it computes, and the run's buffers and threads.
struct EngineRequest {
    std::string input; // the file's name, for messages
    Problem problem;
    bool more_follow = false; // other cases follow, as yet unknown
    EngineOptions options;
    void* staging = nullptr; // memory of all staging buffers
    size_t staging_bytes = 0;
    int ring_buffers = 0;         // staging buffers for input
    int writers = 0;              // threads that fetch output
    Timeline* timeline = nullptr; // null: not recorded
    SpanRecorder recorder;        // for the thread that makes and feeds the engine
};

struct EngineFacts {
    std::string device;      // "gpu" or "cpu"
    std::string device_name; // "NVIDIA H200", "2 threads"
    std::string kernel;
    const Contract* contract = &kF32;
    int streams = 0;             // 0 on the CPU
    std::string copies = "none"; // "2d" or "linear"; "none" on the CPU
    int threads = 0;             // 0 on the GPU
    int64_t chunk_batches = 0;
    int64_t queries_at_once = 0; // per batch
    size_t device_bytes = 0;     // peak GPU memory
};

// Rows of a chunk's input to copy into the chunk's slot, contiguous and in the elements of the file.
struct RowsIn {
    int slot;
    int64_t first_row; // in the slot
    int64_t rows;
    const void* from;
    int buffer; // index of the staging buffer that contains `from`
};

// A step of computing a chunk.
struct Work {
    int slot;
    int64_t batches;
    int slice;
    const int32_t* lengths = nullptr; // the keys of each batch, for a problem by lengths; valid during the run
};

struct RowRange {
    int64_t first;
    int64_t rows;
};

// Rows of a slot's output.
struct RowsOut {
    int slot;
    int64_t first_row; // in the slot
    int64_t rows;
    void* staging;             // space for them, in the elements of the file
    int writer;                // the calling thread
    RowStatistics* statistics; // space for the rows' statistics, if asked for; else null
};

// Has slots, each with memory for the input and output of a chunk of batches. One thread calls copy_in() and compute()
// in the order of the chunks, which take the slots in turn. A slot is computed only after the complete output of its
// previous chunk was fetched, or is not needed because its case has failed; rows of another case are not even copied in
// before. Every function may throw Error. The code `internal` means that the engine is broken; after any other it may
// begin another case.
class Engine {
public:
    virtual ~Engine() = default;

    // Begins another case, in the same thread. The engine's resources stay; the sizes below then belong to this case.
    // Output of the case before may still be fetched. Where slots must move, the engine calls `all_fetched`, which
    // returns after the last fetch.
    virtual void begin(const std::string& input, const Problem& problem, const std::function<void()>& all_fetched) = 0;
    // For the case that began last.
    virtual EngineFacts facts() = 0;

    virtual int slots() const = 0;
    virtual int64_t chunk_batches() const = 0;
    // The number of steps for a chunk: one, unless chunks are single batches so large that the first output rows should
    // be fetched while the others are computed.
    virtual int slices() const = 0;
    // The output rows of a slot that this slice of a chunk of `batches` batches completes.
    virtual RowRange completes(int64_t batches, int slice) const = 0;

    // May return before the rows are copied.
    virtual void copy_in(const RowsIn& rows) = 0;
    // Any thread calls this before it refills the staging buffer.
    virtual void wait_until_copied(int buffer) = 0;
    // May return before anything is computed.
    virtual void compute(const Work& work) = 0;
    // Several threads call this, each with its own number. Returns the address of the rows, in the elements of the
    // file, once they are complete: in `staging`, or in the engine's memory. Their statistics, if asked for, are
    // complete then too.
    virtual const void* fetch(const RowsOut& rows) = 0;

    // Call after the last fetch of all cases.
    virtual void finish() = 0;
};

using MakeEngine = std::function<std::unique_ptr<Engine>(const EngineRequest&)>;

// The number of batches per chunk: enough that fixed costs vanish, few enough that memory stays small and `parts`
// chunks can be in progress.
int64_t chunk_batches_for(const Problem& problem, int parts);

} // namespace hw4
