// Rows of hw4 bench: as files and back, as tables, and two files compared.
#include <cmath>

#include "src/base/version.h"
#include "src/bench/compare.h"
#include "src/bench/outcome.h"
#include "src/bench/row_json.h"
#include "src/bench/tables.h"
#include "tests/support/temporary_folder.h"

namespace hw4::bench {
namespace {

Cell small_cell(const std::string& impl = "f32") {
    Cell cell;
    cell.impl = impl;
    cell.batch_size = 2;
    cell.seq_len = 128;
    cell.num_heads = 4;
    cell.emb_dim = 128;
    return cell;
}

Measured ran(std::vector<double> seconds) {
    Measured measured;
    measured.status = Status::ok;
    measured.kernel = "neon";
    measured.revision = "f32.forward/1";
    measured.launches = 3;
    measured.seconds = std::move(seconds);
    measured.peak_bytes = 3 << 20;
    measured.error = {32, 1e-7, 0.5};
    measured.output_crc32 = "0123abcd";
    measured.as_reference = true;
    return measured;
}

Row some_row() {
    Row row;
    row.cell = small_cell();
    row.of(Pass::forward) = ran({0.001, 0.002, 0.003});
    Measured& oom = row.of(Pass::backward);
    oom.status = Status::oom;
    oom.reason = "needs 7 bytes more, 5 are free";
    oom.wanted_bytes = 7;
    oom.free_bytes = 5;
    row.of(Pass::forward_backward).status = Status::unsupported;
    row.of(Pass::forward_backward).reason = "says \"no\", twice";
    return row;
}

// Of one cell, or of several.
std::string file_json(const std::vector<Row>& rows, const Frame& frame) {
    if (rows.size() == 1) return cell_json(rows.front(), frame);
    std::string text = list_start(frame);
    for (const Row& row : rows) text += list_item(row, &row == &rows.front());
    return text + kListEnd;
}

Frame some_frame() { return {{"bench", "--x"}, "{}"}; }

TEST(BenchRow, StatusIsOkWhereAPassRanAndNoneFailed) {
    Row row = some_row();
    EXPECT_EQ(row.status(), Status::ok);
    row.of(Pass::forward_backward).status = Status::failed;
    EXPECT_EQ(row.status(), Status::failed);
    EXPECT_EQ(row.reason(), "says \"no\", twice");
    EXPECT_EQ(row_without(small_cell(), Status::oom, "why").status(), Status::oom);
    EXPECT_EQ(row_without(small_cell(), Status::oom, "why").reason(), "why");
}

TEST(BenchRow, FlopsAreLab5s) {
    Cell cell = small_cell();
    EXPECT_EQ(flops_of(cell, Pass::forward), 4.0 * 2 * 128 * 128 * 4 * 32);
    cell.causal = true;
    EXPECT_EQ(flops_of(cell, Pass::forward), 2.0 * 2 * 128 * 128 * 4 * 32);
    EXPECT_EQ(flops_of(cell, Pass::backward), 2.5 * flops_of(cell, Pass::forward));
    EXPECT_EQ(flops_of(cell, Pass::forward_backward), 3.5 * flops_of(cell, Pass::forward));
}

TEST(BenchRow, AFileReadBackIsTheSameFile) {
    Row second = some_row();
    second.cell.impl = "naive";
    second.cell.element = Element::bf16;
    second.cell.causal = true;
    second.cell.kernel = "k";
    second.cell.passes[1] = false;
    second.cell.threads = 3;
    second.cell.memory_limit = 1 << 30;
    second.cell.scratch = 0;
    second.cell.rules = {4, 5, 0.7, Timing::wall, true};
    second.of(Pass::backward) = {};
    second.of(Pass::forward).as_reference = std::nullopt;
    second.of(Pass::forward).error.largest = std::nan("");
    for (const std::vector<Row>& rows : {std::vector<Row>{some_row()}, {some_row(), second}}) {
        const std::string text = file_json(rows, some_frame());
        const std::vector<Row> back = read_file(text, "f").rows;
        EXPECT_EQ(file_json(back, some_frame()), text);
        ASSERT_EQ(back.size(), rows.size());
        for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(back[i].cell, rows[i].cell);
    }
}

// In a file of two rows a text of the second is replaced.
TEST(BenchRow, WhatCannotHaveBeenAskedForIsRefused) {
    const std::pair<const char*, const char*> replaced[] = {{"\"num_heads\": 4", "\"num_heads\": 0"},
                                                            {"\"seq_len\": 128", "\"seq_len\": -1"},
                                                            {"\"seq_len\": 128", "\"seq_len\": 1.5"},
                                                            {"\"emb_dim\": 128", "\"emb\": 128"},
                                                            {"\"float32\"", "\"int8\""},
                                                            {"\"forward_backward\"]", "\"sideways\"]"},
                                                            {"\"causal\": false", "\"causal\": 0"},
                                                            {"[0.001, ", "[-0.001, "},
                                                            {"[0.001, ", "[null, "},
                                                            {"\"samples\"", "\"sample\""},
                                                            {"\"wanted_bytes\": 7", "\"wanted_bytes\": -7"}};
    for (const auto& [text, instead] : replaced) {
        std::string file = file_json({some_row(), some_row()}, some_frame());
        const size_t at = file.rfind(text);
        ASSERT_NE(at, std::string::npos) << text;
        file.replace(at, std::string(text).size(), instead);
        const test::Failure failure = test::failure_of([&] { read_file(file, "f"); });
        EXPECT_EQ(failure.code, ExitCode::bad_data) << instead;
        EXPECT_EQ(failure.message.rfind("f: row 2: ", 0), 0) << failure;
    }
    for (const char* const other : {"{}", "{\"forward\": {}}", "[]", "x"})
        EXPECT_EQ(test::failure_of([&] { read_file(other, "f"); }).code, ExitCode::bad_data) << other;
}

TEST(BenchRow, AnAnswerIsOfTheCellThatWasAskedFor) {
    const Row row = read_answer(R"({"hw4": {"parameters": {}, "forward": {"status": "oom", "reason": "much"}}})", "it",
                                small_cell());
    EXPECT_EQ(row.cell, small_cell());
    EXPECT_EQ(row.of(Pass::forward).status, Status::oom);
    EXPECT_EQ(row.of(Pass::backward).status, Status::skipped);
}

TEST(BenchRow, IsTakenOnlyFromTheSameMachineVersionAndRevision) {
    const Frame frame = {{}, R"({"device": "gpu", "name": "A"})"};
    RowFile file = read_file(file_json({some_row()}, frame), "f");
    const auto why = [&] { return why_not_taken(file.rows.front(), file, frame); };
    EXPECT_EQ(why(), "");
    file.rows.front().of(Pass::forward).revision = "f32.forward/0";
    EXPECT_EQ(why(), "under f32.forward/0, now it is f32.forward/1");
    file.machine[1].second = "\"B\"";
    EXPECT_EQ(why(), "on another machine");
    file.hw4_version = "0.0.1";
    EXPECT_EQ(why(), std::string("by hw4 0.0.1, this is ") + kVersion);
}

TEST(BenchCompare, NeedsAnEffectBeyondThresholdAndNoise) {
    EXPECT_EQ(verdict_of({1, 1, 1}, {1.02, 1.02, 1.02}, 0.03), Verdict::same);
    EXPECT_EQ(verdict_of({1, 1, 1}, {1.1, 1.1, 1.1}, 0.03), Verdict::slower);
    EXPECT_EQ(verdict_of({1, 1, 1}, {0.9, 0.9, 0.9}, 0.03), Verdict::faster);
    EXPECT_EQ(verdict_of({0.8, 1, 1.3}, {0.9, 1.1, 1.4}, 0.03), Verdict::same); // they overlap
    EXPECT_EQ(verdict_of({1}, {}, 0.03), Verdict::lost);
}

TEST(BenchCompare, ComparesWhatRanInBoth) {
    Row before = some_row();
    Row after = before;
    after.cell.rules.repeats = 99; // more samples are no other cell
    after.of(Pass::forward) = ran({0.01, 0.011, 0.012});
    Row other = before;
    other.cell.causal = true;
    const std::vector<Compared> list = compare({before, other}, {after}, 0.03);
    ASSERT_EQ(list.size(), 1);
    EXPECT_EQ(list[0].verdict, Verdict::slower);
    EXPECT_EQ(comparison_text(list),
              "slower\tf32 B 2 H 4 N 128 d 32\tforward\t2 ms -> 11 ms, +450.0 %\n0 same, 0 faster, 1 slower, 0 lost\n");
    after.of(Pass::forward) = {};
    after.of(Pass::forward).status = Status::oom;
    EXPECT_EQ(compare({before}, {after}, 0.03)[0].verdict, Verdict::lost);
    after.of(Pass::forward).status = Status::skipped; // nobody asked for it
    EXPECT_TRUE(compare({before}, {after}, 0.03).empty());
}

TEST(BenchCompare, AWrongResultIsNotFaster) {
    const Row right = some_row();
    Row wrong = right;
    wrong.of(Pass::forward) = ran({0.0001, 0.0001, 0.0001});
    wrong.of(Pass::forward).status = Status::failed;
    EXPECT_EQ(compare({right}, {wrong}, 0.03).at(0).verdict, Verdict::lost);
    EXPECT_TRUE(compare({wrong}, {right}, 0.03).empty()); // nor is what is right now slower than it
}

} // namespace
} // namespace hw4::bench
