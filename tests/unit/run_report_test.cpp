#include "src/run/run_report.h"

#include <gtest/gtest.h>

namespace hw4 {
namespace {

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

TEST(Imbalance, IsTheLongestKernelTimeOverTheMean) {
    EXPECT_EQ(imbalance(example_ranks()), 2);
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
    const std::string text = trace_text(
        {trace_events(timeline, {0, "rank 0 on a, ", 0}), trace_events(timeline, {3, "rank 3 on b, ", 0.5})});
    for (const char* part : {"\"pid\": 1, \"args\": {\"name\": \"rank 0 on a, host\"}",
                             "\"pid\": 8, \"args\": {\"name\": \"rank 3 on b, GPU\"}",
                             "\"pid\": 1, \"tid\": 0, \"ts\": 1000000,", "\"pid\": 7, \"tid\": 0, \"ts\": 1500000,"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(JsonText, NoKernelTimeIsNoInfiniteSpeed) {
    RunFigures none = figures();
    none.stages[Stage::kernel].seconds = 0.0;
    EXPECT_NE(json_text("a.in", example(), none).find("\"kernel_tflop_per_second\": 0"), std::string::npos);
}

TEST(JsonText, EscapesOddFileNames) {
    const auto expect = [](const std::string& name, const std::string& escaped) {
        EXPECT_NE(json_text(name, example(), figures()).find("\"input\": \"" + escaped + "\""), std::string::npos);
    };
    expect("a \"b\" \\c/d", R"(a \"b\" \\c/d)");
    expect("tab\tline\nend\r", R"(tab\u0009line\u000aend\u000d)");
    expect("\x01\x1f\x7f", R"(\u0001\u001f\u007f)");
    expect("\xc3\xa9\xe6\xbc\xa2", R"(\u00e9\u6f22)");
    expect("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", R"(\ud800\udc00\udbff\udfff)");
    expect("\x80\xff\xed\xb3\xbf", R"(\udc80\udcff\udced\udcb3\udcbf)"); // no UTF-8, byte by byte
}

TEST(CaseLine, HasThreeFieldsWhateverTheName) {
    CaseReport settled;
    settled.input = "a\tb\n";
    settled.seconds = 0.0789;
    settled.problem = example().problem;
    EXPECT_EQ(case_line(settled), "a\\x09b\\x0a\t(B, N, d): (13600, 128, 32)\tTime: 0.079 seconds\n");
}

} // namespace
} // namespace hw4
