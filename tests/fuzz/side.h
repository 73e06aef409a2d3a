// A side of the differential fuzzer computes the drawn cases: the CPU's kernels or the GPU's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/contracts/contract.h"
#include "tests/fuzz/drawn_case.h"

namespace hw4::fuzz {

// One kernel's answer to a case.
struct Answer {
    std::string kernel;
    const Contract* contract; // the answer must have the bytes of this contract's reference
    std::string how;          // how the kernel was called
    const float* out;         // laid out as in the file, rows `stride` floats apart
    size_t stride;
    std::string fault; // an error other than wrong values; empty: none
};

// Used by one thread. It may keep memory for the next case.
class Side {
public:
    virtual ~Side() = default;
    // Runs every kernel that takes the problem and promises bytes; `random` decides how each is called.
    virtual void answer(const DrawnCase& test, Random& random, const std::function<void(const Answer&)>& take) = 0;
};

std::unique_ptr<Side> make_cpu_side();
// Requires a usable GPU.
std::unique_ptr<Side> make_gpu_side();

// Fills memory that a kernel must not read or must write: a NaN that no arithmetic produces.
constexpr uint32_t kPoison = 0xffffffffu;

} // namespace hw4::fuzz
