// What computes, the CPU or the GPU, as the pipeline sees it.
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
    std::string why_not_here; // this machine cannot run it; empty: it can, as far as is known
};

// Throws Error (usage): a kernel of one contract is asked for and another contract too.
void refuse_other_contract(const std::string& kernel, const Contract& of_kernel, const Contract& asked);

struct EngineOptions {
    const Contract* contract = &kF32;
    std::string kernel;                     // empty: the engine chooses
    const Hw4Kernel* kernel_file = nullptr; // of a file of its own, for the GPU; null: none
    int streams = 4;
    Copies copies = Copies::two_d;
    int card = 0;                            // of the machine's GPUs; after the last comes the first again
    int threads = 0;                         // 0: as many as the machine offers
    int64_t chunk_batches = 0;               // 0: chosen from the problem
    int64_t queries_at_once = 0;             // likewise
    bool statistics = false;                 // of every output row too
    size_t scratch_budget = size_t{4} << 30; // on the GPU, of all streams, for what only makes kernels faster
};

// What an engine is made for: a case, the first that it computes, and the run's buffers and threads.
struct EngineRequest {
    std::string input; // the file's name, for messages
    Problem problem;
    bool more_follow = false; // other cases; what they will be is not known
    EngineOptions options;
    void* staging = nullptr; // the memory that holds all staging buffers
    size_t staging_bytes = 0;
    int ring_buffers = 0;         // staging buffers for input
    int writers = 0;              // threads that fetch output
    Timeline* timeline = nullptr; // null: nobody wants to know
    SpanRecorder recorder;        // of the thread that makes and feeds the engine
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
    int64_t queries_at_once = 0; // of a batch
    size_t device_bytes = 0;     // the most memory it took on the GPU
};

// Rows of a chunk's input, as they follow one another in the file and in its elements, on their way into the chunk's
// slot.
struct RowsIn {
    int slot;
    int64_t first_row; // of the slot
    int64_t rows;
    const void* from;
    int buffer; // the staging buffer that `from` is in
};

// What to compute of a chunk: one of the steps that the engine takes for it.
struct Work {
    int slot;
    int64_t batches;
    int slice;
    const int32_t* lengths = nullptr; // the keys of each batch, of a problem by lengths; they stay for the run
};

struct RowRange {
    int64_t first;
    int64_t rows;
};

// Rows of a slot's output.
struct RowsOut {
    int slot;
    int64_t first_row; // of the slot
    int64_t rows;
    void* staging;             // room for them, in the elements of the file
    int writer;                // who asks
    RowStatistics* statistics; // room for theirs, where the engine was asked for them; else null
};

// Has slots, each with room for what a chunk of batches takes and gives. copy_in() and compute() are called by one
// thread in the order of the chunks, which take the slots in turn. A slot is computed only after the whole output of
// the chunk before was fetched from it, or is not wanted, for its case has failed; of a chunk of another case, not even
// rows are copied in before. Every function may throw Error. One of code `internal` says that the engine is broken;
// after any other it may begin another case.
class Engine {
public:
    virtual ~Engine() = default;

    // Another case, by the same thread. What the engine has stays; the sizes below are those of this case from then on.
    // Output of the case before may still be fetched. Where its slots have to move, the engine calls `all_fetched`,
    // which returns when there is none left.
    virtual void begin(const std::string& input, const Problem& problem, const std::function<void()>& all_fetched) = 0;
    // Of the case that was begun last.
    virtual EngineFacts facts() = 0;

    virtual int slots() const = 0;
    virtual int64_t chunk_batches() const = 0;
    // In how many steps a chunk is computed: one, unless chunks are single batches so large that the first output rows
    // should be on their way while the others are computed.
    virtual int slices() const = 0;
    // The output rows of a slot that are complete after that slice of a chunk of so many batches, and were not before.
    virtual RowRange completes(int64_t batches, int slice) const = 0;

    // May return before the rows are copied.
    virtual void copy_in(const RowsIn& rows) = 0;
    // Called by any thread before the staging buffer is filled again.
    virtual void wait_until_copied(int buffer) = 0;
    // May return before anything is computed.
    virtual void compute(const Work& work) = 0;
    // Called by several threads, each with its own number. Returns where the rows are, in the elements of the file,
    // once they are there: in `staging`, or where the engine keeps them. Their statistics, if asked for, are in the
    // room for them then.
    virtual const void* fetch(const RowsOut& rows) = 0;

    // After the last fetch of all.
    virtual void finish() = 0;
};

using MakeEngine = std::function<std::unique_ptr<Engine>(const EngineRequest&)>;

// How many batches to handle at a time: enough that fixed costs vanish, few enough that memory stays small and
// that there are `parts` chunks to handle at once.
int64_t chunk_batches_for(const Problem& problem, int parts);

} // namespace hw4
