// THE table of GPU kernels. --list-kernels, the tests, the judge and choose_kernel() all read this table; to add a
// kernel, add its file and one row in the kernels.cu of its contract.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "src/contracts/contract.h"
#include "src/gpu/hw4_kernel.h"
#include "src/gpu/launch.h"
#include "src/gpu/plan.h"

namespace hw4::gpu {

constexpr int kMostColumns = 256; // no kernel takes more

// No kernel takes more rows of a tensor in a batch, all heads together: grids and byte counts on the GPU stay in range.
constexpr int64_t kMostBatchRows = int64_t{1} << 31;

inline constexpr Element kFloat32Only[] = {Element::float32};
inline constexpr Element kBf16Only[] = {Element::bf16};
inline constexpr Element kFp16Only[] = {Element::fp16};

// What a kernel needs for any problem.
struct Needs {
    int arch = 75;
    int last_arch = std::numeric_limits<int>::max(); // for instructions that later GPUs do not have
    int64_t most_dim = kMostColumns;
    List<Mask> masks = kNoMask;
    List<Element> elements = kFloat32Only; // the kernel takes these; a launch converts others to the first
    int64_t row_bytes = 1;     // rows have a multiple of this, zeros after dim; a launch adds missing columns
    bool has_own_code = false; // code that does not come from this build
    bool lengths = false;      // whether it takes problems by lengths
    bool pages = false;        // whether it takes problems by pages
    bool windows = false;      // whether it takes problems with a window

    // The number of columns in rows of such elements must be a multiple of this.
    int64_t column_step(Element element) const {
        return std::max<int64_t>(1, row_bytes / static_cast<int64_t>(bytes_of(element)));
    }
};

struct Kernel {
    const char* name;
    const char* idea;
    const Operation* does;
    const Contract* under;
    Needs needs;
    // Both get tensors of an element and with rows that the kernel takes.
    std::function<Plan(const Problem& problem, const Device& device)> plan; // for problems that meet `needs`
    std::function<void(const Launch& launch, cudaStream_t stream)> run;
    bool does_parts = false; // also some outputs of its operation without the others

    // Computes a launch of any element: converts what the kernel does not take, on the GPU, in the launch's scratch
    // memory. It puts only kernels and memsets into the stream: it allocates nothing, waits for nothing, and may be
    // captured in a graph. Throws Error (usage) if a tensor is not aligned as the kernel needs it.
    void launch(const Launch& launch, cudaStream_t stream) const;
};

// Whether a tensor of that element cannot hold the O from which the kernel computes gradients, because it was rounded.
// A launch refuses an earlier O then; without one the launch recomputes O. float32 holds any O.
inline bool loses_output(const Kernel& kernel, Element element) {
    return element != Element::float32 && !kernel.needs.elements.has(element);
}

// In ladder order, operation by operation of each contract: each row is one idea after the row above, and faster where
// it pays (Plan::pays).
const std::vector<Kernel>& kernels();
// Its parts.
std::vector<Kernel> f32_kernels();
std::vector<Kernel> fixed_kernels();
std::vector<Kernel> half_kernels();

// The kernels of an operation under a contract.
std::vector<Kernel> kernels_of(const Contract& contract, const Operation& operation = kForward);

// The kernel of that name; null if there is none.
const Kernel* find_kernel(const std::string& name, const std::vector<Kernel>& table = kernels());

// The plan of a kernel that can take the problem on the GPU, conversions included, or a plan that says why it cannot.
Plan plan_of(const Kernel& kernel, const Problem& problem, const Device& device);

// The fastest kernel of the problem's operation under the contract on the GPU: the last one that can take the problem
// and pays. Null if none can take it.
const Kernel* choose_kernel(const Problem& problem, const Device& device, const Contract& contract,
                            const std::vector<Kernel>& table = kernels());

// A kernel from a file (hw4_kernel.h) as a row of the table, under f32. hw4 does not check that its numbers follow that
// contract. Throws Error (usage) if the table has a kernel of that name.
Kernel kernel_of_file(const Hw4Kernel& file);

} // namespace hw4::gpu
