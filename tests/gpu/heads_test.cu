// Every kernel of forward, of every contract, on problems that are not the course's: several heads, of which some share
// one of K and V, and other numbers of keys than of queries. Byte for byte the contract's reference, head by head.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/each_kernel.h"
#include "tests/support/scattered.h"

namespace hw4::gpu {
namespace {

constexpr Problem problem_of(int64_t batches, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                             int64_t dim) {
    Problem problem(batches, queries, dim);
    problem.keys = keys;
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    return problem;
}

// More keys than queries, fewer, one; every template size of every kernel, whole and in part.
std::vector<Problem> problems() {
    std::vector<Problem> list;
    for (const int64_t dim : {32, 64, 128, 37, 100, 200})
        for (const Problem& problem :
             {problem_of(2, 4, 2, 70, 200, dim), problem_of(2, 4, 2, 200, 70, dim), problem_of(2, 4, 2, 70, 1, dim),
              problem_of(3, 3, 1, 1, 130, dim), problem_of(2, 2, 2, 65, 64, dim), problem_of(2, 1, 1, 130, 33, dim)})
            list.push_back(problem);
    return list;
}

class EachKernelWithHeads : public KernelTest {
protected:
    AttentionCase case_of(const Problem& problem, CaseKind kind) const { return {problem, kind, 5, contract()}; }
};

TEST_P(EachKernelWithHeads, GivesTheReferenceBytes) {
    for (const Problem& problem : problems())
        for (const CaseKind kind : {CaseKind::uniform, CaseKind::spread}) // ordinary rows, and such as are done again
            expect_reference_bytes(case_of(problem, kind));
}

TEST_P(EachKernelWithHeads, TakesEachOperandWhereItIs) {
    for (const Problem& problem : problems()) {
        if (!plan(problem).why_not.empty()) continue;
        const AttentionCase test = case_of(problem, CaseKind::uniform);
        EXPECT_TRUE(same_bytes(test.expected, attend_scattered(GetParam(), test))) << test.name;
    }
}

// Large blocks, blocks that draw or share their work, and groups that share a block's keys.
TEST_P(EachKernelWithHeads, GivesTheReferenceBytesWhenTheCardIsFull) {
    const int64_t batches = current_device().multiprocessors / 4;
    for (const int64_t dim : {32, 64, 128})
        expect_reference_bytes(case_of(problem_of(batches, 8, 2, 130, 70, dim), CaseKind::uniform));
    expect_reference_bytes(case_of(problem_of(batches / 4, 8, 4, 520, 600, 64), CaseKind::uniform));
}

TEST_P(EachKernelWithHeads, GivesTheReferenceBytesOfSomeQueriesOfEveryHead) {
    for (const int64_t dim : {32, 64, 128}) {
        const AttentionCase test = case_of(problem_of(2, 2, 1, kQueryStep + 70, 100, dim), CaseKind::uniform);
        const Plan whole = plan(test.problem);
        if (!whole.why_not.empty()) continue;
        EXPECT_TRUE(same_bytes(test.expected, attend(test, whole.scratch_bytes, in_query_steps(GetParam()))))
            << test.name;
    }
}

// For compute-sanitizer (tests/gpu-check).
TEST_P(EachKernelWithHeads, SanitizerShapes) {
    for (const int64_t dim : {32, 64, 128, 37})
        for (const Problem& problem : {problem_of(1, 4, 2, 33, 70, dim), problem_of(1, 2, 1, 70, 1, dim)})
            expect_reference_bytes(case_of(problem, CaseKind::uniform));
}

INSTANTIATE_TEST_SUITE_P(Every, EachKernelWithHeads, testing::ValuesIn(kernels_that_do(kForward)), kernel_of_instance);

} // namespace
} // namespace hw4::gpu
