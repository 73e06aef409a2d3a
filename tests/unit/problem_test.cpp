// Sizes of problems, the places of their rows, and the keys that a mask leaves.
#include "src/problem/problem.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/problem/mask.h"
#include "src/problem/tensor.h"
#include "tests/support/problems.h"

namespace hw4 {
namespace {

TEST(Problem, SizesOfASmallCase) {
    const Problem problem{2, 3, 5};
    EXPECT_EQ(problem.batch_output_floats(), 15u);
    EXPECT_EQ(problem.batch_input_floats(), 45u);
    EXPECT_EQ(problem.batch_input_bytes(), 180u);
    EXPECT_EQ(problem.batch_output_bytes(), 60u);
    EXPECT_EQ(problem.output_bytes(), 120u);
    EXPECT_EQ(problem.flops(), 4.0 * 2 * 3 * 3 * 5);
}

// The largest case that a reader accepts has just under 2^63 bytes.
TEST(Problem, SizesOfTheLargestCase) {
    const Problem problem{1, 0x7fffffff, 0x15555555};
    const size_t floats = size_t{0x7fffffff} * 0x15555555;
    EXPECT_EQ(problem.batch_input_bytes() / 12, floats);
    EXPECT_LT(problem.batch_input_bytes(), size_t{1} << 63);
    EXPECT_EQ(problem.output_bytes(), 4 * floats);
    EXPECT_EQ(Problem(1 << 10, int64_t{1} << 30, 1 << 6).flops(), 0x1p78);
}

Problem grouped() { return problem_of({3, 4, 2, 5, 7, 2}); }

TEST(Problem, OfSeveralHeadsAndTwoLengths) {
    const Problem problem = grouped();
    EXPECT_EQ(problem.units(), 12);
    EXPECT_EQ(problem.batch_input_rows(), 4 * 5 + 2 * 2 * 7);
    EXPECT_EQ(problem.batch_output_rows(), 4 * 5);
    EXPECT_EQ(problem.input_rows(), 3 * 48);
    EXPECT_EQ(problem.output_bytes(), 3u * 20 * 2 * 4);
    EXPECT_EQ(problem.flops(), 4.0 * 12 * 5 * 7 * 2);
    EXPECT_EQ(problem.of_batches(2).batches, 2);
    EXPECT_EQ(problem.of_batches(2).units(), 8);
}

TEST(Problem, OfTheBackwardPassHasItsOwnRows) {
    Problem problem = grouped();
    problem.operation = &kBackward;
    EXPECT_EQ(problem.batch_input_rows(), 2 * 20 + 2 * 14);
    EXPECT_EQ(problem.batch_output_rows(), 20 + 2 * 14);
    EXPECT_EQ(problem.flops(), 10.0 * 12 * 5 * 7 * 2);
}

// Every row of the file is at one place of one operand, in the file's order.
TEST(Operands, LieAsInTheFile) {
    const Problem problem = grouped();
    constexpr size_t kRow = 6; // with padding, d = 2
    std::vector<float> memory(static_cast<size_t>(problem.input_rows()) * kRow);
    float row = 0;
    for (int64_t batch = 0; batch < problem.batches; ++batch)
        for (size_t i = 0; i < kForward.inputs.size(); ++i) {
            const Operand& operand = kForward.inputs[i];
            const Matrix<float> matrix = operand_at(problem, kForward.inputs, i, memory.data(), kRow);
            EXPECT_EQ(matrix.row, kRow);
            for (int64_t head = 0; head < problem.heads_of(operand); ++head)
                for (int64_t r = 0; r < problem.head_rows(operand); ++r)
                    matrix.of(batch, head)[static_cast<size_t>(r) * matrix.row] = ++row;
        }
    for (size_t i = 0; i < memory.size(); ++i)
        EXPECT_EQ(memory[i], i % kRow == 0 ? static_cast<float>(i / kRow + 1) : 0.0f) << i;
}

std::vector<int64_t> seen_under(Mask mask, int64_t queries, int64_t keys) {
    std::vector<int64_t> seen;
    for (int64_t query = 0; query < queries; ++query) seen.push_back(visible_keys(mask, queries, keys, query));
    return seen;
}

using Counts = std::vector<int64_t>;

TEST(MaskRule, CausalLetsAQuerySeeItselfAndWhatWasBefore) {
    EXPECT_EQ(seen_under(Mask::none, 3, 5), (Counts{5, 5, 5}));
    EXPECT_EQ(seen_under(Mask::causal, 4, 4), (Counts{1, 2, 3, 4}));
    EXPECT_EQ(seen_under(Mask::causal, 1, 1), (Counts{1}));
}

TEST(MaskRule, CausalIsAlignedAtTheLastQueryAndTheLastKey) {
    EXPECT_EQ(seen_under(Mask::causal, 3, 5), (Counts{3, 4, 5}));
    EXPECT_EQ(seen_under(Mask::causal, 1, 5), (Counts{5}));
    EXPECT_EQ(seen_under(Mask::causal, 5, 3), (Counts{0, 0, 1, 2, 3}));
    EXPECT_EQ(seen_under(Mask::causal, 3, 1), (Counts{0, 0, 1}));
}

TEST(MaskRule, ItsCountsAreThoseOfTheQueriesOneByOne) {
    for (const Mask mask : kEveryMask)
        for (int64_t queries = 1; queries <= 6; ++queries)
            for (int64_t keys = 1; keys <= 6; ++keys) {
                double pairs = 0;
                int64_t blind = 0;
                for (const int64_t seen : seen_under(mask, queries, keys)) {
                    pairs += static_cast<double>(seen);
                    blind += seen == 0;
                }
                EXPECT_EQ(visible_pairs(mask, queries, keys), pairs) << name_of(mask) << queries << " " << keys;
                EXPECT_EQ(blind_queries(mask, queries, keys), blind) << name_of(mask) << queries << " " << keys;
            }
}

} // namespace
} // namespace hw4
