// HW4_FAIL_CUDA_CALL=k in the environment: the k-th checked CUDA call of the process is not made and counts as failed.
// In every build, so that the tests see the program that users have; without the variable it is one comparison a call.
#pragma once

#include <atomic>
#include <cstdlib>
#include <limits>

#include "../numbers.h"

namespace hw4::gpu {

inline int64_t failing_call() {
    const char* text = std::getenv("HW4_FAIL_CUDA_CALL");
    return text == nullptr ? 0 : whole_number(text, 1, std::numeric_limits<int64_t>::max()).value_or(0);
}

inline bool fault_due() {
    static const int64_t failing = failing_call();
    static std::atomic<int64_t> calls{0};
    return failing > 0 && ++calls == failing;
}

} // namespace hw4::gpu
