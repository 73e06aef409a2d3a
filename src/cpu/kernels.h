// THE table of CPU kernels, like the GPU's (src/gpu/kernels.h): to add a kernel, add its file and one row in
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

// The arguments of a kernel's launch: some batches of a case in memory, rows dim apart.
struct Launch {
    Problem problem; // its element is that of all tensors
    int threads = 1;
    Crew* crew = nullptr;                // the crew that the threads belong to; null: the launch starts its own
    Tensor in[kMostInputs];              // in the operation's order
    Tensor out[kMostOutputs];            // no overlap with inputs
    const int32_t* lengths = nullptr;    // [batch], for problems by lengths: the keys of each batch
    RowStatistics* statistics = nullptr; // forward: written, [unit][query]; null: not wanted
    // Backward only: O of an earlier forward pass; its statistics are in `statistics`. If it is missing or was rounded,
    // the launch recomputes it.
    Tensor forward_out;
    void* scratch = nullptr;                // aligned to 64 bytes, as many bytes as the kernel's plan says; any content
    std::function<void(int64_t rows)> done; // rows of output; called by the working threads

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

// What a kernel needs for any problem.
struct Needs {
    bool (*processor)(); // whether this processor can run the kernel
    List<Mask> masks = kNoMask;
    int64_t most_dim = 0; // 0: any
    // The elements that the kernel takes: a launch converts other elements to the first of them. A kernel that takes
    // the contract's element rounds other elements to it; for other kernels the launch rounds.
    List<Element> elements = kFloat32Only;
};

// What the kernel needs for a problem and a number of threads.
struct Plan {
    std::string why_not;      // why it cannot compute the problem; empty: it can
    size_t scratch_bytes = 0; // for a launch of the problem or of fewer batches
};

struct Kernel {
    std::string name;
    std::string idea;
    const Operation* does;
    const Contract* under;
    Needs needs;
    // Both get tensors of an element that the kernel takes.
    Plan (*plan)(const Kernel& kernel, const Problem& problem, int threads);
    void (*run)(const Kernel& kernel, const Launch& launch); // the bytes do not depend on the threads
    const BlockKernel* blocks = nullptr;                     // for kernels that work by blocks (by_blocks.cpp)
    const BackwardKernel* backward = nullptr;                // for kernels of backward, in addition to forward's blocks

    // Computes a launch of any element: converts in the launch's scratch memory what the kernel does not take. Throws
    // Error (internal) if the rows of a tensor are not dim apart.
    void launch(const Launch& launch) const;
};

// Kernels by blocks of rows (block_kernel.h), and kernels of backward (backward_kernel.h).
Plan plan_blocks(const Kernel& kernel, const Problem& problem, int threads);
void launch_blocks(const Kernel& kernel, const Launch& launch);
Kernel kernel_by_blocks(const std::string& name, const std::string& idea, const Contract& under,
                        const BlockKernel& blocks); // must outlive the kernel
Plan plan_backward(const Kernel& kernel, const Problem& problem, int threads);
void launch_backward(const Kernel& kernel, const Launch& launch);

// Whether dividing the keys among threads pays, and the computation of blocks in this way (by_keys.cpp). Each row of
// the blocks sees a key.
bool divides_keys(const BlockKernel& kernel, const Problem& problem, int64_t blocks, int threads);
void attend_by_keys(const BlockKernel& kernel, const std::vector<RowBlock>& blocks, const Launch& launch);

// In ladder order, operation by operation of each contract: the first kernel runs anywhere, the last is the fastest.
const std::vector<Kernel>& kernels();

// The plan of a kernel that can take the problem, conversions included, or a plan that says why it cannot.
Plan plan_of(const Kernel& kernel, const Problem& problem, int threads);

// The kernel of that name or, if `name` is empty, the fastest that this processor has for the problem's operation under
// the contract. Throws Error (usage) for an unknown name, a kernel of another contract or one that this processor
// lacks, and (bad_data) if there is no kernel for the problem.
const Kernel& choose_kernel(const std::string& name, const Problem& problem, const Contract& contract,
                            const std::vector<Kernel>& table = kernels());

// The launch of whole batches of the problem's element that are contiguous as in a file.
Launch launch_of(const Problem& problem, const void* in, void* out, void* scratch, int threads);

} // namespace hw4::cpu
