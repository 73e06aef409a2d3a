
#include <gtest/gtest.h>

#include "src/problem/tensor.h"

namespace hw4 {
namespace {

Problem grouped() {
    Problem problem(3, 5, 2); // B, N_q, d
    problem.heads = 4;
    problem.kv_heads = 2;
    problem.keys = 7;
    return problem;
}

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

} // namespace
} // namespace hw4
