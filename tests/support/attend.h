// A launch on a case, compared with the expected bytes.
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
    return attend(test, plan_of(kernel, test.problem, current_device()).scratch_bytes, launcher_of(kernel));
}

// Runs the kernel as several launches, each of some query rows of every unit.
inline auto in_query_steps(const Kernel& kernel) {
    return [launch_some = launcher_of(kernel)](Launch launch, cudaStream_t stream) {
        for (; launch.first_query < launch.problem.queries; launch.first_query = launch.end_query) {
            launch.end_query = launch.first_query + kQueryStep;
            launch_some(launch, stream);
        }
    };
}

// The same with the statistics of all rows, which must equal the reference's.
template <class Run>
std::vector<float> attend_with_statistics(const AttentionCase& test, size_t scratch_bytes, Run run) {
    std::vector<RowStatistics> statistics;
    std::vector<float> out = attend_poisoned(test.problem, test.qkv, scratch_bytes, run, &statistics);
    EXPECT_TRUE(same_statistics(test.statistics, statistics)) << test.name;
    return out;
}

} // namespace hw4::gpu
