// A header of its own, so that files of kernels need not read the table's.
#pragma once

#include <cstddef>
#include <string>

namespace hw4::gpu {

// What the kernel needs for a problem on a GPU.
struct Plan {
    std::string why_not;      // why it cannot compute the problem; empty: it can
    size_t shared_bytes = 0;  // for a block
    size_t scratch_bytes = 0; // the least for a launch of the problem or of a part of it
    size_t most_scratch = 0;  // more than the least makes the launch faster, up to this; 0: it does not
    bool pays = true;         // false: it can, but the kernel in the row above is faster
};

} // namespace hw4::gpu
