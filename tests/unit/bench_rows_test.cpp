// Rows of hw4 bench: as files and back, as tables, and two files compared.
#include <cmath>

#include "src/base/version.h"
#include "src/bench/compare.h"
#include "src/bench/outcome.h"
#include "src/bench/row_json.h"
#include "src/bench/tables.h"
#include "src/bench/time_left.h"
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
    second.cell.rules = {4, 5, 3.3, 0.7, Timing::wall, true};
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

TEST(BenchRow, OneCellsFileBeginsAsLab5s) {
    const std::string text = file_json({some_row()}, some_frame());
    EXPECT_EQ(text.rfind("{\n  \"forward\": {\n    \"time(s)\": 0.002,\n    \"FLOPS(TFLOPs/s)\": 0.008388608\n  },\n"
                         "  \"backward\": {\n    \"time(s)\": null,\n    \"FLOPS(TFLOPs/s)\": null\n  },\n"
                         "  \"forward_backward\": {\n    \"time(s)\": null,\n    \"FLOPS(TFLOPs/s)\": null\n  },\n"
                         "  \"peak_memory_usage(MB)\": 3,\n  \"hw4\": {\n",
                         0),
              0)
        << text;
}

TEST(BenchRow, OtherFilesAreRefused) {
    EXPECT_EQ(
        test::failure_of([] { read_file("{\"forward\": {}}", "f.json"); }),
        (test::Failure{ExitCode::bad_data, "f.json: no file of hw4 bench: a row has no \"hw4\" with \"parameters\""}));
}

// The failure of a file of two rows in whose second a text is replaced.
test::Failure failure_with(const std::string& text, const std::string& instead) {
    std::string file = file_json({some_row(), some_row()}, some_frame());
    const size_t at = file.rfind(text);
    EXPECT_NE(at, std::string::npos) << text;
    file.replace(at, text.size(), instead);
    return test::failure_of([&] { read_file(file, "f"); });
}

TEST(BenchRow, WhatCannotHaveBeenAskedForIsRefused) {
    const auto refused = [](const std::string& text, const std::string& instead, const std::string& message) {
        EXPECT_EQ(failure_with(text, instead), (test::Failure{ExitCode::bad_data, "f: row 2: " + message}));
    };
    const std::string sizes = ", need a whole number from 1 to 2147483648";
    refused("\"num_heads\": 4", "\"num_heads\": 0", "\"num_heads\" is 0" + sizes);
    refused("\"seq_len\": 128", "\"seq_len\": -1", "\"seq_len\" is -1" + sizes);
    refused("\"seq_len\": 128", "\"seq_len\": 1.5", "\"seq_len\" is 1.5" + sizes);
    refused("\"seq_len\": 128", "\"seq_len\": \"x\"", "\"seq_len\" is \"x\"" + sizes);
    refused("\"emb_dim\": 128", "\"emb\": 128", "\"emb_dim\" is missing" + sizes);
    refused("\"float32\"", "\"int8\"", "\"dtype\" is \"int8\", need one of float32, fp16, bf16");
    refused("\"forward_backward\"]", "\"sideways\"]", "\"passes\" is a list, need names of passes");
    refused("\"causal\": false", "\"causal\": 0", "\"causal\" is 0, need true or false");
    refused("\"ok\",\n        \"reason\": null,\n        \"kernel\"", "\"fine\",\n        \"kernel\"",
            "forward: \"status\" is \"fine\", need one of ok, oom, unsupported, failed, skipped");
    for (const char* const seconds : {"[-0.001, ", "[0, ", "[null, "})
        refused("[0.001, ", seconds, "forward: \"samples\" is a list, need seconds above 0 alone");
    refused("\"samples\"", "\"sample\"", "forward: \"samples\" is missing, need some of a pass that ran");
    refused("\"wanted_bytes\": 7", "\"wanted_bytes\": -7",
            "backward: \"wanted_bytes\" is -7, need a whole number from 0 to 4611686018427387904");
}

TEST(BenchRow, AFileOfAnotherFormatIsRefused) {
    std::string file = file_json({some_row(), some_row()}, some_frame());
    file.replace(file.find("\"version\": 1"), 12, "\"version\": 2");
    EXPECT_EQ(test::failure_of([&] { read_file(file, "f"); }),
              (test::Failure{ExitCode::bad_data, "f: \"version\" is 2, need a whole number from 1 to 1"}));
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
    EXPECT_EQ(why(), "where name was \"B\", here it is \"A\"");
    file.machine.pop_back();
    EXPECT_EQ(why(), "where name was none, here it is \"A\"");
    file.machine = {};
    EXPECT_EQ(why(), "on a machine that is not known to be this one");
    file.hw4_version = "0.0.1";
    EXPECT_EQ(why(), std::string("by hw4 0.0.1, this is ") + kVersion);
}

TEST(BenchTables, EveryPassIsALineOfCsv) {
    const std::string text = csv_head() + csv_of(some_row());
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
    EXPECT_NE(text.find("f32,,float32,2,128,4,128,0,,cpu,forward,ok,,neon,3,0.002,0.002,"), std::string::npos) << text;
    EXPECT_NE(text.find("unsupported,\"says \"\"no\"\", twice\",,"), std::string::npos) << text;
}

TEST(BenchTables, MarkdownHasAsManyColumnsInEachLine) {
    std::istringstream lines(markdown_head() + markdown_of(some_row()) +
                             markdown_of(row_without(small_cell("naive"), Status::oom, "why")));
    size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count)
        EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 17) << line;
    EXPECT_EQ(count, 4);
    EXPECT_NE(lines.str().find("| oom: why |\n"), std::string::npos);
}

TEST(BenchTables, ALineOfTheTerminalSaysWhatDidNotRun) {
    const TerminalTable table({small_cell()});
    EXPECT_NE(table.line(some_row()).find("ok; backward oom, forward_backward unsupported"), std::string::npos);
    EXPECT_EQ(table.head().find(" B "), table.line(some_row()).find(" 2 ")); // under its column
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

TEST(BenchCompare, SaysWhatIsInOneFileAlone) {
    std::vector<Row> many;
    for (int64_t tokens = 1; tokens <= 4; ++tokens) {
        many.push_back(some_row());
        many.back().cell.seq_len = tokens;
    }
    const std::vector<Row> one = {many[2]};
    EXPECT_TRUE(cells_without_match(one, many).empty());
    EXPECT_EQ(alone_text({}, "f.json"), "");
    const std::vector<std::string> alone = cells_without_match(many, one);
    EXPECT_EQ(alone_text(alone, "f.json"), "3 cells are in f.json alone: f32 B 2 H 4 N 1 d 32, f32 B 2 H 4 N 2 d 32, "
                                           "f32 B 2 H 4 N 4 d 32\n");
    EXPECT_EQ(alone_text({"a"}, "f"), "1 cell is in f alone: a\n");
    EXPECT_EQ(alone_text({"a", "b", "c", "d"}, "f"), "4 cells are in f alone: a, b, c, ...\n");
}

TEST(BenchTimeLeft, ByTheWorkThatIsLeft) {
    Cell large = small_cell();
    large.seq_len = 16384;
    TimeLeft left({large, large, large});
    EXPECT_EQ(left.text(), "");
    left.done(large, 0); // its row was there
    EXPECT_EQ(left.text(), "");
    left.done(large, 7);
    EXPECT_EQ(left.text(), "about 7 s left");
}

// What a small one takes is not its arithmetic.
TEST(BenchTimeLeft, OfLargeCellsAfterASmallOne) {
    Cell large = small_cell();
    large.seq_len = 16384;
    TimeLeft left({small_cell(), large});
    left.done(small_cell(), 3);
    EXPECT_EQ(left.text(), "about 9 s left");
}

TEST(Ending, SaysInALineWhyTheCodeIsNotOk) {
    Ending ending;
    ending.add(Status::unsupported, "no such\nthing");
    ending.add(Status::oom, "needs more");
    EXPECT_EQ(ending.code(), ExitCode::no_gpu);
    EXPECT_EQ(ending.why(), "no cell ran: no such\\x0athing");
    ending.add(Status::ok, "");
    EXPECT_EQ(ending.code(), ExitCode::ok);
    EXPECT_EQ(ending.why(), "");
    ending.add(Status::failed, "wrong result");
    ending.add(Status::failed, "another");
    EXPECT_EQ(ending.code(), ExitCode::internal);
    EXPECT_EQ(ending.why(), "2 of 5 cells failed: wrong result");
}

} // namespace
} // namespace hw4::bench
