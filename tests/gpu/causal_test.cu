// The causal mask in every GPU forward kernel that takes it.
#include "tests/support/causal.h"

#include <map>
#include <string>
#include <vector>

#include "tests/support/each_kernel.h"
#include "tests/support/gpu_subjects.h"
#include "tests/support/mixed_rows.h"
#include "tests/support/scattered.h"

namespace hw4 {
namespace {

INSTANTIATE_TEST_SUITE_P(Gpu, Causal, testing::ValuesIn(gpu::gpu_subjects(kF32)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(GpuFixed, Causal, testing::ValuesIn(gpu::gpu_subjects(kFixed)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(GpuFixed16, Causal, testing::ValuesIn(gpu::gpu_subjects(kFixed16)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(GpuFixed, FixedCausal, testing::ValuesIn(gpu::gpu_subjects(kFixed)), name_of_instance);
INSTANTIATE_TEST_SUITE_P(GpuFixed16, FixedCausal, testing::ValuesIn(gpu::gpu_subjects(kFixed16)), name_of_instance);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FixedCausal); // a build may have no kernel of the contract

} // namespace
} // namespace hw4

namespace hw4::gpu {
namespace {

constexpr int64_t kDims[] = {1, 32, 33, 64, 100, 128, 256}; // every row size of the kernels, full and partial

// The output must have the bytes of the contract's reference, which computes row by row.
class EachKernelUnderTheMask : public KernelTest {
protected:
    EachKernelUnderTheMask() : KernelTest(Mask::causal) {}

    static const AttentionCase& case_of(const Problem& problem, const Distribution& values) {
        return reference_case(problem, values, 5, *GetParam().under);
    }
};

// Ordinary rows, rows that are computed again or have another M, and some rows with an origin.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytes) {
    for (const int64_t dim : kDims) {
        for (const int64_t n : {1, 31, 33, 63, 64, 65, 127, 129, 200, 1000})
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread})
                expect_reference_bytes(causal_problem(n, n, dim), kind);
        for (const int64_t keys : {130, 70, 200})
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::huge, CaseKind::brink})
                expect_statistics_too(with_heads(causal_problem(130, keys, dim), 2, 1, 1), kind);
    }
}

// The diagonal at every place of a tile; full tiles and blocks of rows on either side of it.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesWhereOneLengthIsLonger) {
    for (const int64_t dim : kDims)
        for (const int64_t more : {1, 31, 63, 64, 65, 100})
            for (const int64_t n : {1, 70, 129}) {
                expect_reference_bytes(causal_problem(n, n + more, dim), CaseKind::uniform);
                expect_reference_bytes(causal_problem(n + more, n, dim), CaseKind::uniform);
            }
}

TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOfHeadsThatShareKeys) {
    for (const int64_t dim : kDims)
        for (const int64_t keys : {70, 171, 20})
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread})
                expect_reference_bytes(with_heads(causal_problem(70, keys, dim), 2, 4, 2), kind);
}

// Rows that stray while others of their block do not, at keys that they see and at keys that they do not see.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOnMixedRows) {
    static std::map<const Contract*, std::vector<AttentionCase>> made; // the same for every kernel of a contract
    std::vector<AttentionCase>& cases = made[GetParam().under];
    if (cases.empty())
        for (const int64_t dim : {1, 32, 33, 64, 100, 128})
            for (const int64_t n : {65, 127, 193})
                for (const int64_t keys : {n, n + 31, n - 40}) {
                    const Problem problem = with_heads(causal_problem(n, keys, dim), 12, 1, 1);
                    cases.push_back(mixed_rows(problem, 12 * cases.size(), *GetParam().under));
                }
    for (const AttentionCase& test : cases) expect_reference_bytes(test);
}

TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOnKindsThatAreTimed) {
    for (Problem problem : timed_problems()) {
        problem.mask = Mask::causal;
        for (const Distribution& values : timed_distributions()) expect_reference_bytes(problem, values);
    }
}

TEST_P(EachKernelUnderTheMask, TakesEachOperandWhereItIs) {
    for (const int64_t dim : {32, 64, 128, 37})
        for (const int64_t keys : {70, 171, 20}) {
            const Problem problem = with_heads(causal_problem(70, keys, dim), 2, 4, 2);
            if (!plan(problem).why_not.empty()) continue;
            const AttentionCase test = case_of(problem, CaseKind::uniform);
            EXPECT_TRUE(same_bytes(test.expected, attend_scattered(GetParam(), test))) << test.name;
        }
}

// Large blocks, blocks that draw or share their work, groups that share a block's keys, and blocks with rows that see
// no key.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesWhenTheCardIsFull) {
    const int64_t batches = current_device().multiprocessors / 4;
    for (const int64_t dim : {32, 64, 128}) {
        for (const int64_t keys : {130, 40})
            expect_reference_bytes(with_heads(causal_problem(130, keys, dim), batches, 8, 2), CaseKind::uniform);
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread})
            expect_statistics_too(with_heads(causal_problem(520, 520, dim), 2 * batches + 1, 1, 1), kind);
    }
    expect_reference_bytes(with_heads(causal_problem(520, 600, 64), batches / 4, 8, 4), CaseKind::uniform);
    expect_reference_bytes(with_heads(causal_problem(2500, 2500, 64), 2, 1, 1), CaseKind::uniform);
}

// The later part sees more keys than the first; with fewer keys than queries, the first part sees none.
TEST_P(EachKernelUnderTheMask, GivesTheReferenceBytesOfSomeQueriesOfEveryHead) {
    for (const int64_t dim : {32, 64, 128})
        for (const int64_t keys : {kQueryStep + 70, kQueryStep + 171, int64_t{100}}) {
            const Problem problem = with_heads(causal_problem(kQueryStep + 70, keys, dim), 2, 2, 1);
            expect_reference_bytes(case_of(problem, CaseKind::uniform), in_query_steps(GetParam()));
        }
}

// For compute-sanitizer (make gpu-check).
TEST_P(EachKernelUnderTheMask, SanitizerShapes) {
    for (const int64_t dim : {32, 64, 128, 37}) expect_reference_bytes(causal_problem(66, 66, dim), CaseKind::uniform);
    for (const int64_t dim : {64, 37})
        for (const Problem& problem : {causal_problem(33, 70, dim), with_heads(causal_problem(70, 5, dim), 1, 2, 1)})
            expect_reference_bytes(problem, CaseKind::uniform);
    expect_reference_bytes(causal_problem(40, 40, 64), CaseKind::brink);
}

INSTANTIATE_TEST_SUITE_P(Every, EachKernelUnderTheMask, testing::ValuesIn(kernels_that_do(kForward, Mask::causal)),
                         kernel_of_instance);

} // namespace
} // namespace hw4::gpu
