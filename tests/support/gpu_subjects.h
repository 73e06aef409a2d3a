// The GPU's kernels as subjects of tests.
#pragma once

#include <string>
#include <vector>

#include "src/gpu/engine.h"
#include "tests/support/attend.h"
#include "tests/support/subject.h"

namespace hw4::gpu {

inline Subject gpu_subject(const Kernel& kernel) {
    const auto why_not = [kernel](const Problem& problem) {
        static const std::string no_gpu = unusable().reason;
        return no_gpu.empty() ? plan_of(kernel, problem, current_device()).why_not : "no usable GPU: " + no_gpu;
    };
    const auto attend = [kernel](const Problem& problem, const std::vector<float>& values) {
        const Plan plan = plan_of(kernel, problem, current_device());
        return attend_poisoned(problem, values, plan.scratch_bytes, launcher_of(kernel));
    };
    return {kernel.name, kernel.under, why_not, attend};
}

inline std::vector<Subject> gpu_subjects(const std::vector<const Contract*>& contracts) {
    std::vector<Subject> list;
    for (const Contract* contract : contracts)
        for (const Kernel& kernel : kernels_of(*contract)) list.push_back(gpu_subject(kernel));
    return list;
}

} // namespace hw4::gpu
