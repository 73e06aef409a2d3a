// A launch on a case with its expected bytes.
#pragma once

#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/gpu_attend.h"

namespace hw4::gpu {

template <class Launch>
std::vector<float> attend(const AttentionCase& test, size_t scratch_bytes, Launch launch) {
    return attend_poisoned(test.shape, test.qkv, scratch_bytes, launch);
}

inline std::vector<float> attend(const Kernel& kernel, const AttentionCase& test) {
    return attend(test, kernel.scratch_bytes(test.shape, current_device()), kernel.launch);
}

} // namespace hw4::gpu
