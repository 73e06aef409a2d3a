#include "src/run/run_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <stdexcept>

#include "src/base/version.h"

namespace hw4 {
namespace {

// Reads one flat JSON object of strings and numbers, and nothing else; strings keep their quotes and escapes.
class FlatJson {
public:
    explicit FlatJson(std::string text) : text_(std::move(text)) {
        expect('{');
        do {
            const std::string name = string();
            expect(':');
            if (!fields_.emplace(name, peek() == '"' ? string() : number()).second) fail("twice " + name);
        } while (take(','));
        expect('}');
        if (peek() != '\0') fail("more text");
    }

    size_t size() const { return fields_.size(); }
    std::string operator[](const std::string& name) const { return fields_.at('"' + name + '"'); }

private:
    [[noreturn]] void fail(const std::string& what) const {
        throw std::runtime_error(what + " at " + std::to_string(at_) + " of " + text_);
    }
    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool take(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail(std::string("no ") + c);
    }
    std::string string() {
        expect('"');
        const size_t start = at_ - 1;
        while (at_ < text_.size() && text_[at_] != '"') {
            const auto byte = static_cast<unsigned char>(text_[at_]);
            if (byte < 0x20 || byte > 0x7e) fail("bare byte");
            at_ += byte == '\\' ? 2 : 1;
        }
        expect('"');
        return text_.substr(start, at_ - start);
    }
    std::string number() {
        peek();
        const size_t end = text_.find_first_not_of("0123456789+-.e", at_);
        const std::string digits = text_.substr(at_, end - at_);
        char* stop = nullptr;
        std::strtod(digits.c_str(), &stop);
        if (digits.empty() || *stop != '\0') fail("no number");
        at_ = end;
        return digits;
    }

    std::string text_;
    size_t at_ = 0;
    std::map<std::string, std::string> fields_;
};

RunReport example() {
    RunReport report;
    report.problem = {13600, 128, 32};
    report.output_crc32 = "0badc0de";
    report.engine.device = "gpu";
    report.engine.device_name = "NVIDIA H200";
    report.engine.kernel = "tiled";
    report.engine.streams = 4;
    report.engine.copies = "linear";
    report.engine.threads = 0;
    report.engine.chunk_batches = 341;
    report.engine.queries_at_once = 128;
    report.engine.device_bytes = 170000000;
    report.readers = 8;
    report.writers = 3;
    report.staging_bytes = 48000000;
    return report;
}

RunFigures figures() {
    RunFigures figures;
    figures.stages[Stage::driver].seconds = 0.125;
    figures.stages[Stage::context].seconds = 0.25;
    figures.stages[Stage::read] = {0.5, 800000000};
    figures.stages[Stage::check] = {0.25, 800000000};
    figures.stages[Stage::copy_in] = {0.0125, 786432000};
    figures.stages[Stage::kernel].seconds = 2.0;
    figures.stages[Stage::write] = {1e-9, 0};
    figures.stages.overlap = 1.75;
    figures.total_seconds = 12.5;
    figures.host_peak_bytes = 123456789;
    return figures;
}

TEST(TimeTable, HasALineForEachStageThatTookTime) {
    EXPECT_EQ(time_table(example(), figures()),
              "  driver      125.000 ms\n"
              "  context     250.000 ms\n"
              "  read        500.000 ms      800.0 MB     1.60 GB/s\n"
              "  check       250.000 ms      800.0 MB     3.20 GB/s\n"
              "  copy_in      12.500 ms      786.4 MB    62.91 GB/s\n"
              "  kernel     2000.000 ms\n"
              "  total     12500.000 ms  1.75 stages at once\n"
              "  memory: 123.5 MB on the host, of which 48.0 MB staging buffers; 170.0 MB on the GPU\n"
              "  on gpu (NVIDIA H200), contract f32.forward/1, kernel tiled, 341 batches at a time\n");
}

TEST(TimeTable, OfARunOnTheCpu) {
    RunReport report = example();
    report.engine.device_bytes = 0;
    report.engine.chunk_batches = 1;
    const std::string table = time_table(report, figures());
    EXPECT_NE(table.find(" 48.0 MB staging buffers\n"), std::string::npos) << table;
    EXPECT_NE(table.find(", 1 batch at a time\n"), std::string::npos) << table;
}

TEST(TimeTable, KeepsLongNamesWhole) {
    RunReport report = example();
    report.engine.device_name = std::string(200, 'x');
    const std::string table = time_table(report, figures());
    EXPECT_NE(table.find("  on gpu (" + report.engine.device_name +
                         "), contract f32.forward/1, kernel tiled, 341 batches at a time\n"),
              std::string::npos)
        << table;
}

// The second has done nothing.
std::vector<RankReport> example_ranks() {
    RankReport worked;
    worked.node = "node7";
    worked.engine = example().engine;
    worked.flops = 3e12;
    worked.readers = 8;
    worked.writers = 3;
    worked.staging_bytes = 48000000;
    worked.figures = figures();
    RankReport half = worked;
    half.flops = 1e12;
    half.figures.stages[Stage::kernel].seconds = 1.0;
    half.figures.total_seconds = 1.25;
    RankReport idle;
    idle.node = "node8\n";
    return {worked, idle, half};
}

TEST(TimeTable, HasALineForEachRank) {
    const std::string table = time_table(example(), figures(), example_ranks());
    EXPECT_EQ(table.substr(table.find("  rank")),
              "  rank 0     75.0 % of the FLOP, kernel  2000.000 ms, total 12500.000 ms, gpu (NVIDIA H200) on node7\n"
              "  rank 1      0.0 % of the FLOP, kernel     0.000 ms, total     0.000 ms, idle on node8\\x0a\n"
              "  rank 2     25.0 % of the FLOP, kernel  1000.000 ms, total  1250.000 ms, gpu (NVIDIA H200) on node7\n"
              "  imbalance 2.00: the longest kernel time of a rank over the mean\n");
    EXPECT_EQ(imbalance(std::vector<RankReport>(2)), 1);
}

TEST(Together, AreTheSumsOfBytesAndTheLongestTimes) {
    const RunFigures all = together(example_ranks(), false);
    EXPECT_EQ(all.stages[Stage::kernel].seconds, 2.0);
    EXPECT_EQ(all.stages[Stage::read].bytes, 1600000000U);
    EXPECT_EQ(all.total_seconds, 12.5);
    EXPECT_EQ(all.host_peak_bytes, 2 * 123456789U);
    EXPECT_EQ(together(example_ranks(), true).host_peak_bytes, 123456789U);
    std::vector<RankReport> ranks = example_ranks();
    std::swap(ranks[0], ranks[1]);
    const RunReport report = together({1, 2, 3}, ranks);
    EXPECT_EQ(report.problem.keys, 2);
    EXPECT_EQ(report.engine.kernel, "tiled");
    EXPECT_EQ(report.engine.device_bytes, 340000000U);
    EXPECT_EQ(report.staging_bytes, 96000000U);
    EXPECT_EQ(report.readers, 16);
}

TEST(TraceText, HasARowForEveryRank) {
    Timeline timeline;
    timeline.add({timeline.add_track("main", false), Stage::read, 1, 2, 5});
    const std::string text = trace_text({trace_events(timeline, {0, "a", 0}), trace_events(timeline, {3, "b", 0.5})});
    for (const char* part : {"\"pid\": 1, \"args\": {\"name\": \"rank 0 on a, host\"}",
                             "\"pid\": 8, \"args\": {\"name\": \"rank 3 on b, GPU\"}",
                             "\"pid\": 1, \"tid\": 0, \"ts\": 1000000,", "\"pid\": 7, \"tid\": 0, \"ts\": 1500000,"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(TraceText, HasEveryTrackAndSpan) {
    Timeline timeline;
    const int reader = timeline.add_track("reader 0", false);
    const int stream = timeline.add_track("stream 0", true);
    timeline.add({reader, Stage::read, 0.001, 0.0035, 4096});
    timeline.add({stream, Stage::kernel, 0.5, 0.75, 0});
    EXPECT_EQ(trace_text(timeline),
              "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
              R"({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "host"}},)"
              "\n"
              R"({"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "GPU"}},)"
              "\n"
              R"({"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {"name": "reader 0"}},)"
              "\n"
              R"({"ph": "M", "name": "thread_name", "pid": 2, "tid": 1, "args": {"name": "stream 0"}},)"
              "\n"
              R"({"ph": "X", "name": "read", "pid": 1, "tid": 0, "ts": 1000, "dur": 2500, "args": {"bytes": 4096}},)"
              "\n"
              R"({"ph": "X", "name": "kernel", "pid": 2, "tid": 1, "ts": 500000, "dur": 250000, "args": {"bytes": 0}})"
              "\n]}\n");
}

TEST(JsonText, HasEveryField) {
    const FlatJson json(json_text("a.in", example(), figures()));
    EXPECT_EQ(json["hw4_version"], '"' + std::string(kVersion) + '"');
    EXPECT_EQ(json["operation"], "\"forward\"");
    EXPECT_EQ(json["contract"], "\"f32\"");
    EXPECT_EQ(json["revision"], "\"f32.forward/1\"");
    EXPECT_EQ(json["mask"], "\"none\"");
    EXPECT_EQ(json["element"], "\"float32\"");
    EXPECT_EQ(json["heads"], "1");
    EXPECT_EQ(json["kv_heads"], "1");
    EXPECT_EQ(json["output_crc32"], "\"0badc0de\"");
    EXPECT_EQ(json["input"], "\"a.in\"");
    EXPECT_EQ(json["batches"], "13600");
    EXPECT_EQ(json["queries"], "128");
    EXPECT_EQ(json["keys"], "128");
    EXPECT_EQ(json["dim"], "32");
    EXPECT_EQ(json["device"], "\"gpu\"");
    EXPECT_EQ(json["device_name"], "\"NVIDIA H200\"");
    EXPECT_EQ(json["kernel"], "\"tiled\"");
    EXPECT_EQ(json["streams"], "4");
    EXPECT_EQ(json["copies"], "\"linear\"");
    EXPECT_EQ(json["threads"], "0");
    EXPECT_EQ(json["chunk_batches"], "341");
    EXPECT_EQ(json["queries_at_once"], "128");
    EXPECT_EQ(json["context_seconds"], "0.25");
    EXPECT_EQ(json["read_seconds"], "0.5");
    EXPECT_EQ(json["copy_in_seconds"], "0.0125");
    EXPECT_EQ(json["copy_in_bytes"], "786432000");
    EXPECT_EQ(json["copy_in_gb_per_second"], "62.91456");
    EXPECT_EQ(json["driver_seconds"], "0.125");
    EXPECT_EQ(json["overlap"], "1.75");
    EXPECT_EQ(json["readers"], "8");
    EXPECT_EQ(json["writers"], "3");
    EXPECT_EQ(json["staging_bytes"], "48000000");
    EXPECT_EQ(json["device_peak_bytes"], "170000000");
    EXPECT_EQ(json["host_peak_bytes"], "123456789");
    EXPECT_EQ(json["kernel_seconds"], "2");
    EXPECT_EQ(json["copy_out_seconds"], "0");
    EXPECT_EQ(json["write_seconds"], "1e-09");
    EXPECT_EQ(json["total_seconds"], "12.5");
    EXPECT_EQ(json["flop"], "2.85212672e+10");
    EXPECT_EQ(json["kernel_tflop_per_second"], "0.0142606336");
    EXPECT_EQ(json.size(), 54u);
}

TEST(JsonText, NamesTheContractOfTheKernel) {
    RunReport report = example();
    report.engine.contract = &kFixed;
    EXPECT_EQ(FlatJson(json_text("a.in", report, figures()))["contract"], "\"fixed\"");
    EXPECT_NE(time_table(report, figures()).find("contract fixed.forward/2,"), std::string::npos);
}

TEST(JsonText, NoKernelTimeIsNoInfiniteSpeed) {
    RunFigures none = figures();
    none.stages[Stage::kernel].seconds = 0.0;
    EXPECT_EQ(FlatJson(json_text("a.in", example(), none))["kernel_tflop_per_second"], "0");
}

TEST(JsonText, EscapesOddFileNames) {
    const auto input = [](const std::string& name) { return FlatJson(json_text(name, example(), figures()))["input"]; };
    EXPECT_EQ(input("a \"b\" \\c/d"), R"("a \"b\" \\c/d")");
    EXPECT_EQ(input("tab\tline\nend\r"), R"("tab\u0009line\u000aend\u000d")");
    EXPECT_EQ(input("\x01\x1f\x7f"), R"("\u0001\u001f\u007f")");
    EXPECT_EQ(input("\xc3\xa9\xe6\xbc\xa2"), R"("\u00e9\u6f22")");
    EXPECT_EQ(input("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), R"("\ud800\udc00\udbff\udfff")");
    EXPECT_EQ(input("\x80\xff\xed\xb3\xbf"), R"("\udc80\udcff\udced\udcb3\udcbf")"); // no UTF-8, byte by byte
    EXPECT_EQ(input("\", \"x\": \"1"), R"("\", \"x\": \"1")");
    EXPECT_EQ(input(""), R"("")");
}

// ---- Many cases

CaseReport example_case(const std::string& input) {
    const RunReport report = example();
    CaseReport settled;
    settled.input = input;
    settled.output = "a.out";
    settled.seconds = 0.0789;
    settled.problem = report.problem;
    settled.engine = report.engine;
    settled.output_crc32 = report.output_crc32;
    return settled;
}

CaseReport failed_case() {
    CaseReport failed;
    failed.input = "b.in";
    failed.output = "b.out";
    failed.code = ExitCode::no_input;
    failed.message = "b.in: cannot open";
    return failed;
}

CasesReport example_cases() {
    CasesReport report;
    report.add(example_case("a.in"));
    report.add(failed_case());
    CaseReport smaller = example_case("c.in");
    smaller.engine.device_bytes = 5;
    report.add(smaller);
    report.readers = 8;
    report.writers = 3;
    report.staging_bytes = 48000000;
    return report;
}

TEST(CaseLine, HasThreeFieldsWhateverTheName) {
    EXPECT_EQ(case_line(example_case("a.in")), "a.in\t(B, N, d): (13600, 128, 32)\tTime: 0.079 seconds\n");
    EXPECT_EQ(case_line(example_case("a\tb\n")), "a\\x09b\\x0a\t(B, N, d): (13600, 128, 32)\tTime: 0.079 seconds\n");
}

TEST(TimeTable, OfManyCasesCountsThem) {
    const std::string table = time_table(example_cases(), figures());
    EXPECT_EQ(table.substr(0, table.find("  memory")),
              time_table(example(), figures()).substr(0, table.find("  memory")));
    EXPECT_EQ(table.substr(table.find("  memory")),
              "  memory: 123.5 MB on the host, of which 48.0 MB staging buffers; 170.0 MB on the GPU\n"
              "  3 cases, 1 failed\n");
}

TEST(JsonEntry, TellsWhatACaseWas) {
    const FlatJson json(json_entry(example_case("a.in")));
    EXPECT_EQ(json["input"], "\"a.in\"");
    EXPECT_EQ(json["output"], "\"a.out\"");
    EXPECT_EQ(json["exit_code"], "0");
    EXPECT_EQ(json["message"], "\"\"");
    EXPECT_EQ(json["seconds"], "0.0789");
    EXPECT_EQ(json["revision"], "\"f32.forward/1\"");
    EXPECT_EQ(json["batches"], "13600");
    EXPECT_EQ(json["output_crc32"], "\"0badc0de\"");
    EXPECT_EQ(json["kernel"], "\"tiled\"");
    EXPECT_EQ(json["flop"], "2.85212672e+10");
}

TEST(JsonEntry, TellsOfAFailureOnlyWhatIsKnown) {
    const FlatJson json(json_entry(failed_case()));
    EXPECT_EQ(json["input"], "\"b.in\"");
    EXPECT_EQ(json["output"], "\"b.out\"");
    EXPECT_EQ(json["exit_code"], "66");
    EXPECT_EQ(json["message"], "\"b.in: cannot open\"");
    EXPECT_EQ(json.size(), 4u);
}

TEST(JsonText, OfManyCasesHasTheirListAndTheRun) {
    const std::string json = json_text({"{}", "{}"}, example_cases(), figures());
    EXPECT_NE(json.find("\"cases\": [{}, {}],\n"), std::string::npos) << json;
    EXPECT_NE(json.find("\"failed\": 1,\n"), std::string::npos);
    EXPECT_NE(json.find("\"device_peak_bytes\": 170000000,\n"), std::string::npos);
    EXPECT_NE(json.find("\"flop\": 5.70425344e+10,\n"), std::string::npos) << "of two";
    EXPECT_NE(json_text(std::vector<std::string>(), CasesReport(), figures()).find("\"cases\": [],\n"),
              std::string::npos);
}

} // namespace
} // namespace hw4
