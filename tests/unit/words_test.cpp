#include "src/problem/words.h"

#include <gtest/gtest.h>

#include "src/problem/matrix.h"

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

TEST(Words, NameTheSizesThatThereAre) {
    EXPECT_EQ(sizes_of({2, 3, 4}), std::make_pair(std::string("(B, N, d)"), std::string("(2, 3, 4)")));
    EXPECT_EQ(sizes_of(grouped()), std::make_pair(std::string("(B, heads, key-value heads, N_q, N_k, d)"),
                                                  std::string("(3, 4, 2, 5, 7, 2)")));
    Problem causal(2, 3, 4);
    causal.mask = Mask::causal;
    EXPECT_EQ(sizes_of(causal), std::make_pair(std::string("(B, heads, key-value heads, N_q, N_k, d, mask)"),
                                               std::string("(2, 1, 1, 3, 3, 4, causal)")));
    causal.operation = &kBackward;
    EXPECT_EQ(sizes_of(causal), std::make_pair(std::string("(B, heads, key-value heads, N_q, N_k, d, mask, operation)"),
                                               std::string("(2, 1, 1, 3, 3, 4, causal, backward)")));
}

TEST(Words, ArePlainForTheCoursesCasesAlone) {
    const auto changed = [](auto change) {
        Problem problem(2, 3, 4);
        change(problem);
        return is_plain(problem);
    };
    EXPECT_TRUE(changed([](Problem&) {}));
    EXPECT_FALSE(changed([](Problem& p) { p.heads = 2; }));
    EXPECT_FALSE(changed([](Problem& p) { p.keys = 4; }));
    EXPECT_FALSE(changed([](Problem& p) { p.mask = Mask::causal; }));
    EXPECT_FALSE(changed([](Problem& p) { p.operation = &kBackward; }));
}

TEST(Words, TellThePlaceOfARow) {
    const Problem plain(2, 3, 4);
    const List<Operand>& in = kForward.inputs;
    EXPECT_EQ(place_of(plain, in, 0), "batch 0, Q, row 0");
    EXPECT_EQ(place_of(plain, in, 5), "batch 0, K, row 2");
    EXPECT_EQ(place_of(plain, in, 17), "batch 1, V, row 2");
    EXPECT_EQ(place_of(plain, kForward.outputs, 4), "batch 1, row 1");
    const Problem problem = grouped();
    EXPECT_EQ(place_of(problem, in, 0), "batch 0, Q, head 0, row 0");
    EXPECT_EQ(place_of(problem, in, 19), "batch 0, Q, head 3, row 4");
    EXPECT_EQ(place_of(problem, in, 20 + 13), "batch 0, K, head 1, row 6");
    EXPECT_EQ(place_of(problem, in, 48 + 34), "batch 1, V, head 0, row 0");
    EXPECT_EQ(place_of(problem, kForward.outputs, 20 + 7), "batch 1, head 1, row 2");
    EXPECT_EQ(row_of(plain, in[0], 2), "row 2");
}

// Every row of the file is in one place of one operand, and in the file's order.
TEST(Operands, LieAsInTheFile) {
    const Problem problem = grouped();
    constexpr size_t kRow = 6; // apart, with d = 2
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
