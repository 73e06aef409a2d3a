// THE table of CPU kernels, the GPU's (src/gpu/kernels.h) for a processor: adding a kernel is its file and one row in
// kernels.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/parallel.h"
#include "src/contracts/contract.h"
#include "src/cpu/backward_kernel.h"
#include "src/cpu/block_kernel.h"
#include "src/problem/tensor.h"

namespace hw4::cpu {

// What a kernel is launched with: some batches of a case in memory, rows dim apart.
struct Launch {
    Problem problem; // its element is that of all tensors
    int threads = 1;
    Crew* crew = nullptr;                // that the threads belong to; null: the launch starts its own
    Tensor in[kMostInputs];              // in the operation's order
    Tensor out[kMostOutputs];            // apart from all inputs
    const int32_t* lengths = nullptr;    // [batch], of a problem by lengths: the keys of each batch
    RowStatistics* statistics = nullptr; // forward: written, [unit][query]; null: not asked for
    // Backward only: O of an earlier forward pass, whose statistics are in `statistics`. None, or of an O that was
    // rounded: the launch recomputes it.
    Tensor forward_out;
    void* scratch = nullptr;                // aligned to 64 bytes, with what the kernel's plan says; any content
    std::function<void(int64_t rows)> done; // of output; called by the working threads

    int64_t keys_of(int64_t batch) const { return lengths == nullptr ? problem.keys : lengths[batch]; }
    // The first key of the batch that a query sees.
    int64_t first_key_of(int64_t batch) const {
        return sight_of(problem.mask, problem.queries, keys_of(batch), problem.window).from(0);
    }

    template <class Work>
    void on_threads(int count, const Work& work) const {
        hw4::on_threads(crew, count, work);
    }
};

// What a kernel needs, whatever else the problem is.
struct Needs {
    bool (*processor)(); // whether this one has it
    List<Mask> masks = kNoMask;
    int64_t most_dim = 0; // 0: any
    // That it takes: a launch converts others to the first of these. A kernel that takes the contract's element rounds
    // the others to it; for the rest a launch does.
    List<Element> elements = kFloat32Only;
};

// What it needs for a problem and so many threads.
struct Plan {
    std::string why_not;      // it cannot; empty: it can
    size_t scratch_bytes = 0; // of a launch of the problem or of fewer batches
};

struct Kernel {
    const char* name;
    const char* idea;
    const Operation* does;
    const Contract* under;
    Needs needs;
    // Both see tensors of an element that the kernel takes.
    Plan (*plan)(const Kernel& kernel, const Problem& problem, int threads);
    void (*run)(const Kernel& kernel, const Launch& launch); // the bytes do not depend on the threads
    const BlockKernel* blocks = nullptr;                     // of kernels that work by blocks (by_blocks.cpp)
    const BackwardKernel* backward = nullptr;                // of kernels of backward, beside forward's blocks

    // Computes a launch of any element: converts what the kernel does not take in the launch's scratch memory.
    // Throws Error (internal) where the rows of a tensor are not dim apart.
    void launch(const Launch& launch) const;
};

// Kernels by blocks of rows (block_kernel.h), and those of backward (backward_kernel.h).
Plan plan_blocks(const Kernel& kernel, const Problem& problem, int threads);
void launch_blocks(const Kernel& kernel, const Launch& launch);
Plan plan_backward(const Kernel& kernel, const Problem& problem, int threads);
void launch_backward(const Kernel& kernel, const Launch& launch);

// In ladder order, one operation of a contract after the other: the first of each runs anywhere, the fastest is last.
const std::vector<Kernel>& kernels();

// The plan of a kernel that can take the problem, conversions included, or one that says why it cannot.
Plan plan_of(const Kernel& kernel, const Problem& problem, int threads);

// The kernel of that name, or the fastest of the problem's operation under the contract that this processor has when
// `name` is empty. Throws Error (usage) for an unknown name, one of another contract or one this processor lacks, and
// (bad_data) where there is none for the problem.
const Kernel& choose_kernel(const std::string& name, const Problem& problem, const Contract& contract,
                            const std::vector<Kernel>& table = kernels());

// The launch of whole batches of the problem's element that follow one another as in a file.
Launch launch_of(const Problem& problem, const void* in, void* out, void* scratch, int threads);

} // namespace hw4::cpu
