#include "../src/run_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <stdexcept>

#include "../src/contract.h"
#include "../src/options.h"

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
    report.device = "gpu";
    report.device_name = "NVIDIA H200";
    report.kernel = "tiled";
    report.streams = 4;
    report.copies = "linear";
    report.threads = 0;
    report.chunk_batches = 341;
    report.seconds = {0.25, 0.5, 0.0123456, 2.0, 0.0, 1e-9};
    return report;
}

TEST(TimeTable, HasALineForEachStage) {
    EXPECT_EQ(time_table(example(), 12.3456789), "  context     250.000 ms\n"
                                                 "  read        500.000 ms\n"
                                                 "  copy_in      12.346 ms\n"
                                                 "  kernel     2000.000 ms\n"
                                                 "  copy_out      0.000 ms\n"
                                                 "  write         0.000 ms\n"
                                                 "  total     12345.679 ms\n"
                                                 "  on gpu (NVIDIA H200), kernel tiled, 341 batches at a time\n");
}

TEST(TimeTable, KeepsLongNamesWhole) {
    RunReport report = example();
    report.device_name = std::string(200, 'x');
    const std::string table = time_table(report, 1.0);
    EXPECT_NE(table.find("  on gpu (" + report.device_name + "), kernel tiled, 341 batches at a time\n"),
              std::string::npos)
        << table;
}

TEST(JsonText, HasEveryField) {
    const FlatJson json(json_text("a.in", {13600, 128, 32}, example(), 12.5));
    EXPECT_EQ(json["hw4_version"], '"' + std::string(kVersion) + '"');
    EXPECT_EQ(json["contract"], '"' + std::string(kContractName) + '"');
    EXPECT_EQ(json["input"], "\"a.in\"");
    EXPECT_EQ(json["batches"], "13600");
    EXPECT_EQ(json["tokens"], "128");
    EXPECT_EQ(json["dim"], "32");
    EXPECT_EQ(json["device"], "\"gpu\"");
    EXPECT_EQ(json["device_name"], "\"NVIDIA H200\"");
    EXPECT_EQ(json["kernel"], "\"tiled\"");
    EXPECT_EQ(json["streams"], "4");
    EXPECT_EQ(json["copies"], "\"linear\"");
    EXPECT_EQ(json["threads"], "0");
    EXPECT_EQ(json["chunk_batches"], "341");
    EXPECT_EQ(json["context_seconds"], "0.25");
    EXPECT_EQ(json["read_seconds"], "0.5");
    EXPECT_EQ(json["copy_in_seconds"], "0.0123456");
    EXPECT_EQ(json["kernel_seconds"], "2");
    EXPECT_EQ(json["copy_out_seconds"], "0");
    EXPECT_EQ(json["write_seconds"], "1e-09");
    EXPECT_EQ(json["total_seconds"], "12.5");
    EXPECT_EQ(json["flop"], "2.85212672e+10");
    EXPECT_EQ(json["kernel_tflop_per_second"], "0.0142606336");
    EXPECT_EQ(json.size(), 22u);
}

TEST(JsonText, NoKernelTimeIsNoInfiniteSpeed) {
    RunReport report = example();
    report.seconds.kernel = 0.0;
    EXPECT_EQ(FlatJson(json_text("a.in", {1, 1, 1}, report, 0.0))["kernel_tflop_per_second"], "0");
}

TEST(JsonText, EscapesOddFileNames) {
    const auto input = [](const std::string& name) {
        return FlatJson(json_text(name, {1, 1, 1}, example(), 1.0))["input"];
    };
    EXPECT_EQ(input("a \"b\" \\c/d"), R"("a \"b\" \\c/d")");
    EXPECT_EQ(input("tab\tline\nend\r"), R"("tab\u0009line\u000aend\u000d")");
    EXPECT_EQ(input("\x01\x1f\x7f"), R"("\u0001\u001f\u007f")");
    EXPECT_EQ(input("\xc3\xa9\xff"), R"("\u00c3\u00a9\u00ff")");
    EXPECT_EQ(input("\", \"x\": \"1"), R"("\", \"x\": \"1")");
    EXPECT_EQ(input(""), R"("")");
}

} // namespace
} // namespace hw4
