// Rows of hw4 bench.
#include "src/bench/row_json.h"

#include <gtest/gtest.h>

#include "src/bench/baseline.h"

namespace hw4::bench {
namespace {

Cell small_cell() {
    Cell cell;
    cell.impl = "f32";
    cell.batch_size = 2;
    cell.seq_len = 128;
    cell.num_heads = 4;
    cell.emb_dim = 128;
    return cell;
}

Row some_row() {
    Row row;
    row.cell = small_cell();
    row.of(Pass::forward).status = Status::ok;
    row.of(Pass::forward).seconds = {0.001, 0.002, 0.003};
    row.of(Pass::backward).status = Status::oom;
    row.of(Pass::forward_backward).status = Status::unsupported;
    row.of(Pass::forward_backward).reason = "says \"no\", twice";
    return row;
}

TEST(BenchRow, RatiosAreOfTheBaselineOnTheSameProblem) {
    const auto row_of = [](const char* impl, int64_t tokens, double seconds) {
        Row row = some_row();
        row.cell.impl = impl;
        row.cell.seq_len = tokens;
        row.of(Pass::forward).seconds = {seconds};
        return row;
    };
    Baseline baseline("naive");
    Row rows[] = {row_of("naive", 64, 6), row_of("naive", 128, 12), row_of("f32", 64, 2), row_of("f32", 256, 2)};
    rows[2].cell.element = Element::bf16;
    for (Row& row : rows) baseline.compare(row);
    EXPECT_EQ(rows[0].of(Pass::forward).ratio, 1);
    EXPECT_EQ(rows[2].of(Pass::forward).ratio, 3);
    EXPECT_EQ(rows[2].of(Pass::backward).ratio, 0); // it did not run
    EXPECT_EQ(rows[3].of(Pass::forward).ratio, 0);  // no baseline of this size
}

// JSON has no NaN.
TEST(BenchRow, AnErrorThatIsNaNIsNull) {
    Row row = some_row();
    row.of(Pass::forward).error.largest = std::nan("");
    EXPECT_NE(cell_json(row, {}).find("\"largest\": null"), std::string::npos);
}

} // namespace
} // namespace hw4::bench
