// Every kernel of both contracts on problems that are not the course's: several heads, of which some share one of K and
// V, and other numbers of keys than of queries. Byte for byte the contract's reference, head by head.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/gpu/kernels.h"
#include "tests/support/attend.h"
#include "tests/support/attention_case.h"
#include "tests/support/need_gpu.h"
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

std::string sizes(const Problem& problem) {
    return "B " + std::to_string(problem.batches) + ", heads " + std::to_string(problem.heads) + " and " +
           std::to_string(problem.kv_heads) + ", rows " + std::to_string(problem.queries) + " and " +
           std::to_string(problem.keys) + ", d " + std::to_string(problem.dim);
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

class EachKernelWithHeads : public testing::TestWithParam<Kernel> {
protected:
    void SetUp() override {
        HW4_SKIP_WITHOUT_GPU();
        const std::string refusal = plan({1, 1, 1}).why_not;
        if (!refusal.empty()) GTEST_SKIP() << refusal;
    }

    Plan plan(const Problem& problem) const { return plan_of(GetParam(), problem, current_device()); }

    void expect_reference_bytes(const AttentionCase& test) {
        if (plan(test.problem).why_not.empty())
            EXPECT_TRUE(same_bytes(test.expected, attend(GetParam(), test))) << sizes(test.problem);
    }

    AttentionCase case_of(const Problem& problem, CaseKind kind) const { return {problem, kind, 5, *GetParam().under}; }
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
        EXPECT_TRUE(same_bytes(test.expected, attend_scattered(GetParam(), test))) << sizes(problem);
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
            << sizes(test.problem);
    }
}

// For compute-sanitizer (tests/gpu-check).
TEST_P(EachKernelWithHeads, SanitizerShapes) {
    for (const int64_t dim : {32, 64, 128, 37})
        for (const Problem& problem : {problem_of(1, 4, 2, 33, 70, dim), problem_of(1, 2, 1, 70, 1, dim)})
            expect_reference_bytes(case_of(problem, CaseKind::uniform));
}

INSTANTIATE_TEST_SUITE_P(Every, EachKernelWithHeads, testing::ValuesIn(kernels()),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace hw4::gpu
