// Every kernel of forward, of every contract, asked for the statistics of its rows: bit for bit the reference's, beside
// its output.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/each_kernel.h"
#include "tests/support/mixed_rows.h"

namespace hw4::gpu {
namespace {

class EachKernelWithStatistics : public KernelTest {
protected:
    template <class Run>
    void expect_reference_bytes(const AttentionCase& test, Run run) {
        const Plan needs = plan(test.problem);
        if (!needs.why_not.empty()) return; // d, the card or the mask: whether rightly so others test
        EXPECT_TRUE(same_bytes(test.expected, attend_with_statistics(test, needs.scratch_bytes, run))) << test.name;
    }
    void expect_reference_bytes(const AttentionCase& test) { expect_reference_bytes(test, launcher_of(GetParam())); }

    // Ordinary rows, rows that have another M, and some that have an origin.
    void expect_reference_bytes(const Problem& problem) {
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread, CaseKind::huge, CaseKind::brink})
            expect_reference_bytes(reference_case(problem, kind, 11, contract()));
    }
};

TEST_P(EachKernelWithStatistics, GivesThoseOfEveryCorner) {
    for (const Problem& problem : corner_problems()) expect_reference_bytes(problem);
}

TEST_P(EachKernelWithStatistics, GivesThoseOfStrayRowsBesideOthers) {
    for (const AttentionCase& test : mixed_rows_cases(contract())) expect_reference_bytes(test);
}

TEST_P(EachKernelWithStatistics, GivesThoseOfEveryHead) {
    for (const int64_t dim : {32, 64, 128, 37})
        for (const int64_t keys : {1, 70, 200}) {
            Problem problem(2, 70, dim);
            problem.keys = keys;
            problem.heads = 4;
            problem.kv_heads = 2;
            expect_reference_bytes(problem);
        }
}

// Rows that see no key among them.
TEST_P(EachKernelWithStatistics, GivesThoseOfRowsUnderTheCausalMask) {
    for (const int64_t dim : {1, 32, 33, 64, 100, 128, 256})
        for (const int64_t keys : {130, 70, 200}) {
            Problem problem(2, 130, dim);
            problem.keys = keys;
            problem.mask = Mask::causal;
            expect_reference_bytes(problem);
        }
}

TEST_P(EachKernelWithStatistics, GivesThoseOfSomeQueriesAfterOthers) {
    for (const int64_t dim : {32, 64, 128}) {
        Problem problem(2, 2 * kQueryStep + 70, dim);
        problem.keys = 100;
        expect_reference_bytes(reference_case(problem, CaseKind::spread, 11, contract()), in_query_steps(GetParam()));
    }
}

// Large blocks, and blocks that draw or share their work.
TEST_P(EachKernelWithStatistics, GivesThoseOfAFullCard) {
    const int64_t batches = current_device().multiprocessors / 2 + 1;
    for (const int64_t dim : {32, 64, 128})
        for (const Mask mask : {Mask::none, Mask::causal})
            for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread}) {
                Problem problem{batches, 520, dim};
                problem.mask = mask;
                expect_reference_bytes(reference_case(problem, kind, 11, contract()));
            }
}

// For compute-sanitizer (tests/gpu-check).
TEST_P(EachKernelWithStatistics, SanitizerShapes) {
    for (Problem problem : {Problem{1, 70, 64}, Problem{1, 33, 37}, Problem{1, 40, 128}})
        for (const Mask mask : {Mask::none, Mask::causal}) {
            problem.mask = mask;
            expect_reference_bytes(reference_case(problem, CaseKind::spread, 11, contract()));
        }
}

INSTANTIATE_TEST_SUITE_P(Every, EachKernelWithStatistics, testing::ValuesIn(kernels_that_do(kForward)),
                         kernel_of_instance);

} // namespace
} // namespace hw4::gpu
