// Operands that stay from one cell to the next are those that would be made anew.
#include "src/bench/measure.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "src/io/case_values.h"

namespace hw4::bench {
namespace {

// More than one of the pieces that threads take.
Cell small_cell() {
    Cell cell;
    cell.impl = "f32";
    cell.batch_size = 2;
    cell.seq_len = 150;
    cell.num_heads = 4;
    cell.emb_dim = 4 * 24;
    return cell;
}

std::vector<float> anew(const Cell& cell, const Operation& operation) {
    const Problem problem = problem_of(cell, operation);
    std::vector<float> values(problem.floats_in(problem.input_rows()));
    fill_case_values({problem, distribution_of(cell.kind), 1}, 0, values.size(), values.data());
    for (float& value : values) value = rounded_to(cell.element, value);
    return values;
}

void expect_as_anew(const CaseData& data, const Cell& cell, const Operation& operation) {
    const std::vector<float> wanted = anew(cell, operation);
    ASSERT_EQ(data.values.size(), wanted.size());
    EXPECT_EQ(std::memcmp(data.values.data(), wanted.data(), wanted.size() * sizeof(float)), 0) << words_of(cell);
    EXPECT_EQ(data.problem.operation, &operation);
    EXPECT_EQ(data.problem.element, cell.element) << words_of(cell);
    EXPECT_EQ(data.problem.mask, cell.causal ? Mask::causal : Mask::none) << words_of(cell);
    EXPECT_EQ(data.problem.heads, cell.num_heads) << words_of(cell);
}

TEST(KeptData, IsAsMadeAnewWhateverCameBefore) {
    const std::function<void(Cell&)> changes[] = {
        [](Cell& cell) { cell.element = Element::bf16; },
        [](Cell& cell) { cell.element = Element::fp16; },
        [](Cell& cell) { cell.element = Element::float32; },
        [](Cell& cell) { cell.kind = "normal:3"; },
        [](Cell& cell) { cell.kind = "sink"; },
        [](Cell& cell) { cell.causal = true; },
        [](Cell& cell) { std::swap(cell.batch_size, cell.num_heads); }, // as many numbers, elsewhere
        [](Cell& cell) { cell.num_heads *= 2; },
        [](Cell& cell) { cell.seq_len += 1; },
        [](Cell& cell) { cell.emb_dim *= 2; },
        [](Cell& cell) { cell.impl = "fixed16"; },
    };
    KeptData kept;
    Cell cell = small_cell();
    for (const auto& change : changes) {
        for (const Operation* operation : {&kForward, &kBackward})
            expect_as_anew(kept.of(cell, *operation), cell, *operation);
        change(cell);
        for (const Operation* operation : {&kBackward, &kForward})
            expect_as_anew(kept.of(cell, *operation), cell, *operation);
    }
}

} // namespace
} // namespace hw4::bench
