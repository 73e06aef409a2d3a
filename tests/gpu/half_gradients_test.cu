// The backward kernels of bf16 and fp16: as near to float64 as their arithmetic allows, and the bytes of a head always
// the same.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/gpu/half/kernels.h"
#include "tests/support/backward_problem.h"
#include "tests/support/each_kernel.h"
#include "tests/support/half_gradients.h"
#include "tests/support/scattered.h"
#include "tests/support/values_of.h"

namespace hw4::gpu {
namespace {

std::vector<Kernel> half_backward_kernels() {
    std::vector<Kernel> list;
    for (const Kernel& kernel : kernels())
        if (kernel.under->compared == Compared::bound && kernel.does == &kBackward) list.push_back(kernel);
    return list;
}

class HalfBackwardKernel : public KernelTest {
protected:
    Element element() const { return contract().element; }

    std::vector<float> gradients(const Problem& problem, const std::vector<float>& values) const {
        // All of scratch memory is written, also for initcheck, which does not see what the copy engine writes.
        const auto launch = [&](const Launch& asked, cudaStream_t stream) {
            HW4_CUDA(cudaMemsetAsync(asked.scratch, 0xff, asked.scratch_bytes, stream));
            GetParam().launch(asked, stream);
        };
        return attend_poisoned(problem, values, plan(problem).scratch_bytes, launch);
    }
    // Nothing where the kernel cannot take the problem.
    void expect_within_bound(const Problem& problem, const std::vector<float>& values) const {
        if (!plan(problem).why_not.empty()) return;
        EXPECT_TRUE(HalfGradients(problem, element(), values).hold(gradients(problem, values)));
    }
    void expect_within_bound(const Problem& problem, const Distribution& kind = CaseKind::uniform) const {
        expect_within_bound(problem, values_of(problem, kind));
    }
};

constexpr int64_t kDims[] = {1, 8, 33, 64, 96, 100, 128, 200, 256}; // every size of kernels' rows, whole and in part

TEST_P(HalfBackwardKernel, IsWithinTheBound) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : kDims)
            for (const int64_t n : {1, 2, 63, 64, 65, 127, 128, 129, 200})
                expect_within_bound(backward_of({1, 1, 1, n, n, dim}, mask));
}

// More tiles than stages, and blocks of keys that wait for others.
TEST_P(HalfBackwardKernel, IsWithinTheBoundOfManyTiles) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {64, 128}) expect_within_bound(backward_of({1, 2, 1, 700, 700, dim}, mask));
}

// The diagonal in every place of a tile, rows that see no key, keys that no row sees, and blocks of them.
TEST_P(HalfBackwardKernel, IsWithinTheBoundWhereOneLengthIsLonger) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {33, 64, 128, 256})
            for (const int64_t n : {1, 70, 193})
                for (const int64_t more : {1, 63, 65, 128, 300}) {
                    expect_within_bound(backward_of({1, 1, 1, n, n + more, dim}, mask));
                    expect_within_bound(backward_of({1, 1, 1, n + more, n, dim}, mask));
                }
}

TEST_P(HalfBackwardKernel, IsWithinTheBoundOfEveryHead) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {1, 37, 64, 128, 256})
            for (const int64_t keys : {1, 70, 200}) expect_within_bound(backward_of({2, 6, 2, 70, keys, dim}, mask));
}

TEST_P(HalfBackwardKernel, IsWithinTheBoundOfManyBatches) {
    for (const BackwardSizes& sizes : {BackwardSizes{14000, 1, 1, 8, 8, 4}, BackwardSizes{300, 1, 1, 130, 130, 64}})
        expect_within_bound(backward_of(sizes));
}

TEST_P(HalfBackwardKernel, IsWithinTheBoundOnEveryKind) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {33, 64, 128})
            for (const CaseKind kind : {CaseKind::equal, CaseKind::negative, CaseKind::vzero, CaseKind::normal})
                expect_within_bound(backward_of({1, 1, 1, 200, 200, dim}, mask), kind);
}

// Scores so far from 0 that they have an origin taken from them: what is added to all of a row's changes nothing.
TEST_P(HalfBackwardKernel, IsFiniteWhereScoresAreFar) {
    for (const int64_t dim : {33, 64, 128}) {
        const Problem problem = backward_of({1, 1, 1, 200, 200, dim}, Mask::causal);
        std::vector<float> near = values_of(problem);
        for (int64_t row = 0; row < 400; ++row) near[static_cast<size_t>(row * dim)] = row < 200 ? 0.0f : 128.0f;
        std::vector<float> far = near;
        for (int64_t row = 0; row < 200; row += 3) far[static_cast<size_t>(row * dim)] = 256.0f; // of Q
        const auto columns = static_cast<size_t>(dim);
        const std::vector<float> wanted = gradients(problem, near);
        const std::vector<float> got = gradients(problem, far);
        for (size_t row = 0; row < 200; ++row) // of dQ: those that are not far do not notice
            if (row % 3 != 0)
                EXPECT_TRUE(std::equal(wanted.begin() + static_cast<int64_t>(row * columns),
                                       wanted.begin() + static_cast<int64_t>((row + 1) * columns),
                                       got.begin() + static_cast<int64_t>(row * columns)))
                    << row;
        for (const float x : got) ASSERT_TRUE(std::isfinite(x)) << dim;
    }
}

TEST_P(HalfBackwardKernel, TakesEachOperandWhereItIs) {
    for (const int64_t dim : {1, 37, 64, 100, 128})
        for (const int64_t keys : {70, 171, 20}) {
            const Problem problem = backward_of({2, 4, 2, 70, keys, dim}, Mask::causal);
            if (!plan(problem).why_not.empty()) continue;
            const AttentionCase& test = reference_case(problem, CaseKind::uniform, 5, contract());
            EXPECT_TRUE(same_bytes(gradients(problem, test.qkv), attend_scattered(GetParam(), test))) << test.name;
        }
}

TEST_P(HalfBackwardKernel, GivesABatchAmongOthersTheSameBytes) {
    for (const int64_t dim : {20, 64, 128})
        for (const Mask mask : kEveryMask) {
            const Problem problem = backward_of({64, 2, 1, 200, 300, dim}, mask);
            const std::vector<float> values = values_of(problem);
            const std::vector<float> out = gradients(problem, values);
            const auto in = static_cast<int64_t>(problem.batch_input_floats());
            const auto there = static_cast<int64_t>(problem.batch_output_floats());
            for (const int64_t batch : {0, 1, 31, 63})
                EXPECT_TRUE(same_bytes(
                    {out.begin() + batch * there, out.begin() + (batch + 1) * there},
                    gradients(problem.of_batches(1), {values.begin() + batch * in, values.begin() + (batch + 1) * in})))
                    << batch;
        }
}

// Whoever takes which job, and whoever waits for whom.
TEST_P(HalfBackwardKernel, GivesTheSameBytesAHundredTimes) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {64, 128}) {
            const Problem problem = backward_of({4, 8, 4, 700, 700, dim}, mask);
            const std::vector<float> values = values_of(problem);
            const std::vector<float> first = gradients(problem, values);
            for (int run = 1; run < 100; ++run) ASSERT_TRUE(same_bytes(first, gradients(problem, values))) << run;
        }
}

// As on cards with fewer: fewer than there are blocks that add to one sum.
TEST_P(HalfBackwardKernel, GivesTheSameBytesOnFewerMultiprocessors) {
    for (const Mask mask : kEveryMask) {
        const Problem problem = backward_of({1, 4, 2, 1500, 1500, 64}, mask);
        const std::vector<float> values = values_of(problem);
        const std::vector<float> all = gradients(problem, values);
        for (const int multiprocessors : {1, 2, 7}) {
            const auto few = [&](Launch launch, cudaStream_t stream) {
                launch.device.multiprocessors = multiprocessors;
                GetParam().launch(launch, stream);
            };
            EXPECT_TRUE(same_bytes(all, attend_poisoned(problem, values, plan(problem).scratch_bytes, few)));
        }
    }
}

// For compute-sanitizer (tests/gpu-check).
TEST_P(HalfBackwardKernel, SanitizerShapes) {
    for (const Mask mask : kEveryMask) {
        for (const int64_t dim : {64, 128, 37, 200}) expect_within_bound(backward_of({1, 2, 1, 66, 140, dim}, mask));
        expect_within_bound(backward_of({1, 1, 1, 300, 20, 64}, mask));
        expect_within_bound(backward_of({2, 1, 1, 1, 1, 1}, mask));
    }
}

INSTANTIATE_TEST_SUITE_P(Every, HalfBackwardKernel, testing::ValuesIn(half_backward_kernels()), kernel_of_instance);

} // namespace
} // namespace hw4::gpu
