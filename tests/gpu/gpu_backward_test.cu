// Every backward kernel must have the bytes of the contract's reference for every shape, value, mask and number of
// heads, with the least scratch memory and with more, and whether forward is given or not.
#include <algorithm>
#include <string>
#include <vector>

#include "src/run/shares.h"
#include "tests/support/each_kernel.h"
#include "tests/support/mixed_rows.h"
#include "tests/support/problems.h"
#include "tests/support/scattered.h"

namespace hw4::gpu {
namespace {

Problem square(int64_t batches, int64_t tokens, int64_t dim, Mask mask = Mask::none) {
    return backward_of({batches, 1, 1, tokens, tokens, dim}, mask);
}

constexpr int64_t kDims[] = {1, 20, 32, 33, 64, 100, 128, 200, 256}; // every row size of the kernels, full and partial

// The least size, the size that makes the launch fastest, and an odd size between them.
std::vector<size_t> scratch_sizes(const Plan& plan) {
    if (plan.most_scratch <= plan.scratch_bytes) return {plan.scratch_bytes};
    return {plan.scratch_bytes, plan.scratch_bytes + (plan.most_scratch - plan.scratch_bytes) / 3 + 1,
            plan.most_scratch};
}

// A launch of the kernel with the results of forward given, whose O has another row stride. before(launch, stream) is
// called once O is there.
template <class Before>
auto with_forward_given(const Kernel& kernel, Before before) {
    return [&kernel, before](Launch launch, cudaStream_t stream) {
        Launch forward = launch;
        forward.problem.operation = &kForward;
        const auto rows = static_cast<size_t>(forward.problem.output_rows());
        const auto columns = static_cast<size_t>(launch.problem.dim);
        const size_t stride = (columns + 3) / 4 * 4 + 8;
        const Kernel& first = *choose_kernel(forward.problem, launch.device, kF32);
        const Scratch out = make_scratch(rows * stride * sizeof(float));
        const Scratch statistics = make_scratch(rows * sizeof(RowStatistics));
        const Scratch scratch = make_scratch(plan_of(first, forward.problem, launch.device).scratch_bytes);
        poison(out.get(), rows * stride * sizeof(float), stream);
        forward.out[0] = tensor_at(forward.problem, kForward.outputs, 0, out.get(), stride);
        forward.statistics = static_cast<RowStatistics*>(statistics.get());
        forward.scratch = scratch.get();
        first.launch(forward, stream);
        launch.forward_out = forward.out[0];
        launch.statistics = forward.statistics;
        before(launch, stream);
        kernel.launch(launch, stream);
        HW4_CUDA(cudaStreamSynchronize(stream));
    };
}

auto with_forward_given(const Kernel& kernel) {
    return with_forward_given(kernel, [](const Launch&, cudaStream_t) {});
}

class EachGpuBackwardKernel : public KernelTest {
protected:
    template <class Run>
    void expect_with_any_scratch(const AttentionCase& test, const Plan& needs, const Run& run) {
        if (!needs.why_not.empty()) return;
        for (const size_t bytes : scratch_sizes(needs))
            EXPECT_TRUE(same_bytes(test.expected, attend(test, bytes, run)))
                << test.name << ", " << bytes << " bytes of scratch memory";
    }
    void expect_with_any_scratch(const AttentionCase& test) {
        expect_with_any_scratch(test, plan(test.problem), launcher_of(GetParam()));
    }

    void expect_reference_bytes(const Problem& problem, const Distribution& values = CaseKind::uniform) {
        if (plan(problem).why_not.empty()) expect_with_any_scratch(reference_case(problem, values, 5));
    }

    // The kernel gets only the rows of the part.
    void expect_reference_rows(const AttentionCase& test, const CasePart& part) {
        const Problem& own = part.problem;
        if (!plan(test.problem).why_not.empty()) return;
        const Plan needs = plan(own);
        ASSERT_EQ(needs.why_not, "");
        const std::vector<float> in = rows_of(part, own.operation->inputs, own.input_rows(), test.qkv);
        const std::vector<float> expected = rows_of(part, own.operation->outputs, own.output_rows(), test.expected);
        for (const size_t bytes : scratch_sizes(needs)) {
            const std::string with = test.name + ", " + std::to_string(bytes) + " bytes of scratch memory";
            EXPECT_TRUE(same_bytes(expected, attend_poisoned(own, in, bytes, launcher_of(GetParam())))) << with;
            EXPECT_TRUE(same_bytes(expected, attend_poisoned(own, in, bytes, with_forward_given(GetParam())))) << with;
        }
    }
};

TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytes) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : kDims)
            for (const int64_t n : {1, 2, 31, 33, 63, 64, 65, 97, 127, 128, 129, 200})
                expect_reference_bytes(square(n < 100 ? 3 : 1, n, dim, mask));
}

// Full segments and groups, and one row fewer and one more.
TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytesAroundGroups) {
    for (const Mask mask : kEveryMask) {
        for (const int64_t n : {1023, 1024, 1025, 2049}) expect_reference_bytes(square(1, n, 8, mask));
        expect_reference_bytes(square(1, 1025, 64, mask));
        expect_reference_bytes(square(1, 1100, 128, mask));
        expect_reference_bytes(backward_of({1, 2, 1, 1100, 2100, 5}, mask));
        expect_reference_bytes(backward_of({1, 2, 1, 2100, 1100, 5}, mask));
        expect_reference_bytes(backward_of({1, 1, 1, 2500, 300, 8}, mask)); // with the mask, a slab sees no key
    }
}

// Some rows see no key, and some keys are seen by no row. By turns the queries or the keys are more.
TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytesWhereOneLengthIsLonger) {
    size_t turn = 0;
    for (const Mask mask : kEveryMask) {
        ++turn;
        for (const int64_t dim : kDims) {
            for (const int64_t more : {1, 31, 64, 100})
                for (const int64_t n : {1, 70, 129}) {
                    const bool keys = turn++ % 2 == 0;
                    expect_reference_bytes(
                        backward_of({1, 1, 1, n + (keys ? 0 : more), n + (keys ? more : 0), dim}, mask));
                }
            turn += dim % 32 == 0 ? 1 : 0;
        }
    }
}

TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytesOfHeadsThatShareKeys) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : kDims)
            for (const Sizes& sizes : {Sizes{2, 4, 2, 70, 200, dim}, Sizes{2, 3, 1, 200, 70, dim},
                                       Sizes{3, 3, 3, 1, 130, dim}, Sizes{2, 8, 2, 70, 1, dim}})
                expect_reference_bytes(backward_of(sizes, mask), CaseKind::spread);
}

// References that move, rows that stray, scores beyond 2^21, denormals, equal scores, and gradients that are zero, tiny
// and at their limit.
TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytesOnValuesOfEveryKind) {
    std::vector<Distribution> kinds(std::begin(kAllKinds), std::end(kAllKinds));
    for (const Distribution& timed : timed_distributions()) kinds.push_back(timed);
    for (const CaseKind of_gradients : {CaseKind::gzero, CaseKind::gtiny, CaseKind::glimit})
        kinds.emplace_back(of_gradients);
    size_t turn = 0;
    for (const Distribution& values : kinds) {
        for (const int64_t dim : {33, 64, 128, 200})
            expect_reference_bytes(backward_of({1, 2, 1, 150, 153, dim}, kEveryMask[turn++ % std::size(kEveryMask)]),
                                   values);
        ++turn; // the next kind has the other mask in each dim
    }
}

// Rows that stray while others of their block do not, at keys that they see and at keys that they do not see.
TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytesOnMixedRows) {
    static std::vector<AttentionCase> cases; // the same for every kernel
    if (cases.empty())
        for (const Mask mask : kEveryMask)
            for (const int64_t dim : {1, 32, 33, 64, 128})
                for (const int64_t n : {65, 193})
                    for (const int64_t keys : {n, n - 40})
                        cases.push_back(mixed_rows(backward_of({8, 1, 1, n, keys, dim}, mask), 8 * cases.size()));
    for (const AttentionCase& test : cases) expect_with_any_scratch(test);
}

TEST_P(EachGpuBackwardKernel, TakesEachOperandWhereItIs) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {32, 64, 128, 37, 200})
            for (const int64_t keys : {70, 171, 20}) {
                const AttentionCase& test =
                    reference_case(backward_of({2, 4, 2, 70, keys, dim}, mask), CaseKind::uniform, 5);
                if (plan(test.problem).why_not.empty())
                    EXPECT_TRUE(same_bytes(test.expected, attend_scattered(GetParam(), test))) << test.name;
            }
}

// Many units, and as many as a large GPU has blocks.
TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytesWhenTheCardIsFull) {
    const int64_t batches = current_device().multiprocessors / 4;
    for (const Mask mask : kEveryMask) {
        for (const int64_t dim : {32, 64, 128})
            expect_reference_bytes(backward_of({batches, 8, 2, 130, 70, dim}, mask));
        expect_reference_bytes(square(1000, 9, 5, mask));
        expect_reference_bytes(square(2, 1500, 64, mask));
    }
}

// So small a GPU that these problems keep it busy: long pieces of rows, totals that stay where the result will be. And
// GPUs with less shared memory.
TEST_P(EachGpuBackwardKernel, GivesTheReferenceBytesAsOnOtherCards) {
    for (const size_t shared_bytes : {current_device().shared_bytes, size_t{99} << 10, size_t{163} << 10})
        for (const Mask mask : kEveryMask)
            for (const int64_t dim : {20, 32, 64, 100, 128}) {
                const AttentionCase& test = reference_case(square(1, 1100, dim, mask), CaseKind::uniform, 5);
                Device other = current_device();
                other.multiprocessors = 1;
                other.shared_bytes = std::min(other.shared_bytes, shared_bytes);
                SCOPED_TRACE(shared_bytes);
                expect_with_any_scratch(test, plan_of(GetParam(), test.problem, other),
                                        [&](Launch launch, cudaStream_t stream) {
                                            launch.device = other;
                                            GetParam().launch(launch, stream);
                                        });
            }
}

// The parts that ranks compute: rows of dQ, blocks of dK and dV. Some rows see no key, some groups of rows see no key
// of a block, and some heads share keys.
TEST_P(EachGpuBackwardKernel, GivesSomeOfTheGradients) {
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes :
             {Sizes{1, 1, 1, 200, 200, 64}, Sizes{1, 2, 1, 300, 170, 37}, Sizes{1, 3, 1, 170, 300, 128},
              Sizes{1, 1, 1, 2200, 2200, 8}, Sizes{1, 2, 1, 2500, 1300, 5}, Sizes{1, 1, 1, 1300, 2500, 64}}) {
            const AttentionCase& test = reference_case(backward_of(sizes, mask), CaseKind::spread, 5);
            for (const int shares : {2, 3, 5})
                for (const std::vector<CasePart>& parts : divide_into_parts(test.problem, shares, Gradients::cut))
                    for (const CasePart& part : parts) {
                        SCOPED_TRACE("in " + std::to_string(shares));
                        expect_reference_rows(test, part);
                    }
        }
}

CasePart key_block(const Problem& whole, int64_t first, int64_t keys) {
    CasePart part(whole);
    part.problem.operation = &kKeyGradients;
    part.problem.first_key = first;
    part.problem.block_keys = keys;
    return part;
}

CasePart all_queries(const Problem& whole) {
    CasePart part(whole);
    part.problem.operation = &kQueryGradients;
    return part;
}

// Blocks of keys may begin and end anywhere.
TEST_P(EachGpuBackwardKernel, GivesGradientsOfAnyBlockOfKeys) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {37, 64}) {
            const AttentionCase& test = reference_case(backward_of({1, 2, 1, 130, 150, dim}, mask), CaseKind::brink, 5);
            for (const auto& [first, keys] :
                 {std::pair{0, 1}, std::pair{0, 64}, std::pair{37, 100}, std::pair{64, 64}, std::pair{149, 1},
                  std::pair{63, 66}, std::pair{128, 22}, std::pair{0, 150}}) {
                SCOPED_TRACE(std::to_string(keys) + " keys from " + std::to_string(first) + " on");
                expect_reference_rows(test, key_block(test.problem, first, keys));
            }
        }
}

// The rounds have several heads, or several rows of one head.
TEST_P(EachGpuBackwardKernel, GivesDqAloneOfEveryHead) {
    for (const Mask mask : kEveryMask)
        for (const Sizes& sizes :
             {Sizes{1, 4, 2, 130, 150, 64}, Sizes{1, 2, 2, 1200, 99, 8}, Sizes{1, 2, 1, 1200, 1200, 8}}) {
            const AttentionCase& test = reference_case(backward_of(sizes, mask), CaseKind::uniform, 5);
            expect_reference_rows(test, all_queries(test.problem));
        }
}

// Forward was computed before the launch.
TEST_P(EachGpuBackwardKernel, GivesTheSameBytesWhereForwardIsGiven) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : kDims)
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::brink}) {
                const AttentionCase& test = reference_case(backward_of({2, 2, 1, 130, 99, dim}, mask), kind, 5);
                expect_with_any_scratch(test, plan(test.problem), with_forward_given(GetParam()));
            }
}

// D is computed from the O that is given.
TEST_P(EachGpuBackwardKernel, DoesNotComputeForwardWhereItIsGiven) {
    const AttentionCase& test = reference_case(square(1, 70, 64), CaseKind::uniform, 5);
    const Plan needs = plan(test.problem);
    const auto with_another = with_forward_given(GetParam(), [](const Launch& given, cudaStream_t in) {
        const float wrong = 7.0f;
        HW4_CUDA(cudaMemcpyAsync(given.forward_out.data, &wrong, sizeof wrong, cudaMemcpyHostToDevice, in));
    });
    EXPECT_FALSE(same_bytes(test.expected, attend(test, needs.scratch_bytes, with_another)));
}

TEST_P(EachGpuBackwardKernel, OfZerosIsPositiveZero) {
    for (const Mask mask : kEveryMask) {
        const Problem problem = backward_of({2, 4, 2, 130, 66, 64}, mask);
        const std::vector<float> out = attend_poisoned(problem, values_of(problem, CaseKind::gzero),
                                                       plan(problem).scratch_bytes, launcher_of(GetParam()));
        EXPECT_TRUE(same_bytes(std::vector<float>(out.size()), out));
    }
}

// For compute-sanitizer (make gpu-check).
TEST_P(EachGpuBackwardKernel, SanitizerShapes) {
    for (const Mask mask : kEveryMask) expect_reference_bytes(backward_of({1, 2, 1, 66, 70, 64}, mask));
}

TEST_P(EachGpuBackwardKernel, SanitizerNarrowShapes) {
    for (const Mask mask : kEveryMask)
        for (const int64_t dim : {32, 37}) expect_reference_bytes(backward_of({1, 1, 1, 66, 70, dim}, mask));
}

TEST_P(EachGpuBackwardKernel, SanitizerWideShapes) {
    expect_reference_bytes(backward_of({1, 1, 1, 66, 70, 128}));
    expect_reference_bytes(backward_of({1, 1, 1, 66, 66, 200}, Mask::causal));
}

TEST_P(EachGpuBackwardKernel, SanitizerBlindRows) {
    for (const int64_t dim : {64, 37}) expect_reference_bytes(backward_of({1, 2, 1, 70, 5, dim}, Mask::causal));
}

TEST_P(EachGpuBackwardKernel, SanitizerParts) {
    for (const Mask mask : kEveryMask) {
        const AttentionCase& test = reference_case(backward_of({1, 2, 1, 66, 140, 64}, mask), CaseKind::uniform, 5);
        expect_reference_rows(test, key_block(test.problem, 64, 64));
        expect_reference_rows(test, all_queries(test.problem));
    }
}

// Two groups of rows and two of keys: the fewest pairs with both.
TEST_P(EachGpuBackwardKernel, SanitizerGroups) {
    for (const Sizes& sizes : {Sizes{1, 1, 1, 1030, 2, 2}, Sizes{1, 1, 1, 2, 1030, 2}})
        expect_reference_bytes(backward_of(sizes), CaseKind::brink);
}

INSTANTIATE_TEST_SUITE_P(Every, EachGpuBackwardKernel, testing::ValuesIn(kernels_that_do(kBackward)),
                         kernel_of_instance);

} // namespace
} // namespace hw4::gpu
