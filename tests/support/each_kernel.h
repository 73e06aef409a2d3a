// Tests over the GPU's kernels, each on problems of its own operation and contract.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/gpu/kernels.h"
#include "tests/support/attend.h"
#include "tests/support/attention_case.h"
#include "tests/support/need_gpu.h"

namespace hw4::gpu {

// The kernels of every contract that is compared byte by byte.
inline std::vector<Kernel> kernels_that_do(const Operation& operation, Mask mask = Mask::none) {
    std::vector<Kernel> list;
    for (const Kernel& kernel : kernels())
        if (kernel.under->compared == Compared::bytes && kernel.does == &operation && kernel.needs.masks.has(mask))
            list.push_back(kernel);
    return list;
}

inline std::string kernel_of_instance(const testing::TestParamInfo<Kernel>& instance) { return instance.param.name; }

class KernelTest : public testing::TestWithParam<Kernel> {
protected:
    explicit KernelTest(Mask mask = Mask::none) { least_.mask = mask; }

    void SetUp() override {
        HW4_SKIP_WITHOUT_GPU();
        least_.operation = GetParam().does;
        const std::string refusal = plan(least_).why_not;
        if (!refusal.empty()) GTEST_SKIP() << refusal;
    }

    Plan plan(const Problem& problem) const { return plan_of(GetParam(), problem, current_device()); }
    const Contract& contract() const { return *GetParam().under; }

    // Does nothing where the kernel cannot take the problem: kernels_test.cu tests whether it refuses rightly.
    template <class Run>
    void expect_reference_bytes(const AttentionCase& test, Run run) {
        const Plan needs = plan(test.problem);
        if (needs.why_not.empty())
            EXPECT_TRUE(same_bytes(test.expected, attend(test, needs.scratch_bytes, run))) << test.name;
    }
    void expect_reference_bytes(const AttentionCase& test) { expect_reference_bytes(test, launcher_of(GetParam())); }
    void expect_reference_bytes(const Problem& problem, const Distribution& values, uint64_t seed = 5) {
        if (plan(problem).why_not.empty()) expect_reference_bytes(reference_case(problem, values, seed, contract()));
    }

    // The same, and again with the reference's statistics of all rows, which other code may compute.
    template <class Run>
    void expect_statistics_too(const AttentionCase& test, Run run) {
        const Plan needs = plan(test.problem);
        if (!needs.why_not.empty()) return;
        expect_reference_bytes(test, run);
        EXPECT_TRUE(same_bytes(test.expected, attend_with_statistics(test, needs.scratch_bytes, run))) << test.name;
    }
    void expect_statistics_too(const AttentionCase& test) { expect_statistics_too(test, launcher_of(GetParam())); }
    void expect_statistics_too(const Problem& problem, const Distribution& values, uint64_t seed = 5) {
        if (plan(problem).why_not.empty()) expect_statistics_too(reference_case(problem, values, seed, contract()));
    }

private:
    Problem least_{1, 1, 32}; // every kernel that the GPU can run takes it
};

} // namespace hw4::gpu
