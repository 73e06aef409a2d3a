// THE table of GPU kernels. --list-kernels, the tests, the judge and the choice all read this one; adding a kernel is
// its file and one row in the kernels.cu of its contract.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "src/contracts/contract.h"
#include "src/gpu/hw4_kernel.h"
#include "src/gpu/launch.h"

namespace hw4::gpu {

constexpr int kMostColumns = 256; // no kernel takes more

// Nor of an operand in a batch, all heads together: so grids, and counts of bytes on the card, stay within their types.
constexpr int64_t kMostBatchRows = int64_t{1} << 31;

inline constexpr Element kFloat32Only[] = {Element::float32};
inline constexpr Element kBf16Only[] = {Element::bf16};
inline constexpr Element kFp16Only[] = {Element::fp16};

// What a kernel needs, whatever else the problem is.
struct Needs {
    int arch = 75;
    int last_arch = std::numeric_limits<int>::max(); // instructions that later cards do not have
    int64_t most_dim = kMostColumns;
    List<Mask> masks = kNoMask;
    List<Element> elements = kFloat32Only; // that it takes; a launch converts others to the first of these
    int64_t row_bytes = 1;     // rows have a multiple of so many, zeros after dim; a launch adds missing columns
    bool has_own_code = false; // that this build knows nothing of
    bool lengths = false;      // whether it takes a problem by lengths
    bool pages = false;        // whether it takes a problem by pages
    bool windows = false;      // and one with a window

    // Rows of such elements have a multiple of so many columns.
    int64_t column_step(Element element) const {
        return std::max<int64_t>(1, row_bytes / static_cast<int64_t>(bytes_of(element)));
    }
};

// What it needs for a problem on a card.
struct Plan {
    std::string why_not;      // it cannot; empty: it can
    size_t shared_bytes = 0;  // of a block
    size_t scratch_bytes = 0; // the least for a launch of the problem or of a part of it
    size_t most_scratch = 0;  // up to which more of it makes the launch faster; 0: it does not
    bool pays = true;         // no: it can, but the row above takes less time
};

struct Kernel {
    const char* name;
    const char* idea;
    const Operation* does;
    const Contract* under;
    Needs needs;
    // Both see tensors of an element and with rows that the kernel takes.
    std::function<Plan(const Problem& problem, const Device& device)> plan; // of a problem that has what it needs
    std::function<void(const Launch& launch, cudaStream_t stream)> run;
    bool does_parts = false; // some outputs of its operation without the others, too

    // Computes a launch of any element: converts what the kernel does not take, on the card, in the launch's scratch
    // memory. Puts kernels and memsets into the stream and nothing else: it allocates nothing, waits for nothing, and
    // may be captured in a graph. Throws Error (usage) where a tensor is not aligned as the kernel needs it.
    void launch(const Launch& launch, cudaStream_t stream) const;
};

// Whether O of an earlier forward pass, as a tensor of that element, is no longer the O that the kernel's gradients are
// made of: it was rounded. A launch refuses it then; without it the launch recomputes O. float32 holds any O.
inline bool loses_output(const Kernel& kernel, Element element) {
    return element != Element::float32 && !kernel.needs.elements.has(element);
}

// In ladder order, one operation of a contract after the other: each row is one idea after the row above, and faster
// where it pays (Plan::pays).
const std::vector<Kernel>& kernels();

// Those of an operation under a contract.
std::vector<Kernel> kernels_of(const Contract& contract, const Operation& operation = kForward);

// The kernel of that name; null when there is none.
const Kernel* find_kernel(const std::string& name, const std::vector<Kernel>& table = kernels());

// The plan of a kernel that can take the problem on the card, conversions included, or one that says why it cannot.
Plan plan_of(const Kernel& kernel, const Problem& problem, const Device& device);

// The fastest kernel of the problem's operation under the contract on the card: the last that can take the problem and
// pays. Null when none can take it.
const Kernel* choose_kernel(const Problem& problem, const Device& device, const Contract& contract,
                            const std::vector<Kernel>& table = kernels());

// A kernel in a file of its own (hw4_kernel.h) as a row of the table, under f32. hw4 does not check that its numbers
// follow that contract. Throws Error (usage): the table has a kernel of that name.
Kernel kernel_of_file(const Hw4Kernel& file);

} // namespace hw4::gpu
