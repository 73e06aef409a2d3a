// What kernels and plans have to know of a card: asked for once, then passed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hw4::gpu {

// A batch may be cut by its query rows at multiples of this. Blocks of rows count from the cut, and the last before the
// next cut may have fewer rows.
constexpr int64_t kQueryStep = 1024;

struct Device {
    int arch = 0;            // compute capability, 10 * major + minor
    size_t shared_bytes = 0; // that one block may have
    int multiprocessors = 0;
    int code_arch = std::numeric_limits<int>::max(); // what the code that runs on it was compiled for
    // Its instruction for powers of 2 gives the table of the contract fixed16 (card_powers.cu).
    bool powers_follow_table = true;
};

// What this build has code for.
struct BuiltFor {
    std::vector<int> archs; // machine code, ascending
    int ptx;                // from which the driver makes code for cards that have none of their own
};
BuiltFor built_for();

// Which of it a card runs: machine code runs on cards of its own major version and at least its minor one, PTX on all
// that are not older. 0: none.
int code_arch(int card_arch, const BuiltFor& built);

// The card that the calling thread uses.
int card_in_use();

// The compute capability of the card in use.
int card_arch();

// The card in use. The first call for a card asks the driver and runs a small kernel; no launch has to ask again.
Device current_device();
std::string device_name();

} // namespace hw4::gpu
