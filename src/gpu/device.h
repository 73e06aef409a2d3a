// What kernels and plans need to know about a GPU. It is queried once and then passed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hw4::gpu {

// The query rows of a batch may be cut at multiples of this. Blocks of rows count from the cut, and the last block
// before the next cut may have fewer rows.
constexpr int64_t kQueryStep = 1024;

struct Device {
    int arch = 0;            // compute capability, 10 * major + minor
    size_t shared_bytes = 0; // maximum for one block
    int multiprocessors = 0;
    int code_arch = std::numeric_limits<int>::max(); // the architecture that the code it runs was compiled for
    // The GPU's instruction for powers of 2 gives the table of the contract fixed16 (card_powers.cu).
    bool powers_follow_table = true;
};

// The architectures that this build has code for.
struct BuiltFor {
    std::vector<int> archs; // machine code, ascending
    int ptx;                // the driver compiles it for GPUs that have no machine code here
};
BuiltFor built_for();

// The architecture of the code that a GPU runs: machine code runs on GPUs of its own major version and at least its
// minor version, PTX on all GPUs that are not older. 0: none.
int code_arch(int card_arch, const BuiltFor& built);

// The GPU that the calling thread uses.
int card_in_use();

// The compute capability of the GPU in use.
int card_arch();

// The GPU in use. The first call for a GPU asks the driver and runs a small kernel; launches need not ask again.
Device current_device();
std::string device_name();

} // namespace hw4::gpu
