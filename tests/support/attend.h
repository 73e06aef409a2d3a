// A launch on a case with its expected bytes.
#pragma once

#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/gpu_attend.h"

namespace hw4::gpu {

template <class Run>
std::vector<float> attend(const AttentionCase& test, size_t scratch_bytes, Run run) {
    return attend_poisoned(test.problem, test.qkv, scratch_bytes, run);
}

inline std::vector<float> attend(const Kernel& kernel, const AttentionCase& test) {
    return attend(test, plan_of(kernel, test.problem, current_device()).scratch_bytes, kernel.launch);
}

} // namespace hw4::gpu
