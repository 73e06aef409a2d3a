// Who computes the drawn cases in the differential fuzzer: the CPU's kernels or the GPU's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/contracts/contract.h"
#include "tests/fuzz/drawn_case.h"
#include "tests/fuzz/random.h"

namespace hw4::fuzz {

// One kernel's answer to a case.
struct Answer {
    std::string kernel;
    const Contract* contract; // whose reference it has to give the bytes of
    std::string how;          // in which way it was called
    const float* out;         // as in the file, rows `stride` floats apart
    size_t stride;
    std::string fault; // something wrong beside the values; empty: nothing
};

// Used by one thread. May keep memory from case to case.
class Side {
public:
    virtual ~Side() = default;
    // Every kernel that takes the problem and whose contract promises bytes, each in a way that `random` decides.
    virtual void answer(const DrawnCase& test, Random& random, const std::function<void(const Answer&)>& take) = 0;
};

std::unique_ptr<Side> make_cpu_side();
// The GPU must be usable.
std::unique_ptr<Side> make_gpu_side();

// What memory is filled with that a kernel must not read or must write: a NaN that no arithmetic makes.
constexpr uint32_t kPoison = 0xffffffffu;

} // namespace hw4::fuzz
