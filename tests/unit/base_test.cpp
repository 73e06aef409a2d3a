// Texts, numbers and memory of src/base.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/json.h"
#include "src/base/numbers.h"
#include "src/base/pickle.h"
#include "src/base/untouched_vector.h"

namespace hw4 {
namespace {

TEST(JsonText, EscapesOddFileNames) {
    EXPECT_EQ(json_string("a \"b\" \\c/d"), R"("a \"b\" \\c/d")");
    EXPECT_EQ(json_string("tab\tline\nend\r"), R"("tab\u0009line\u000aend\u000d")");
    EXPECT_EQ(json_string("\x01\x1f\x7f"), R"("\u0001\u001f\u007f")");
    EXPECT_EQ(json_string("\xc3\xa9\xe6\xbc\xa2"), R"("\u00e9\u6f22")");
    EXPECT_EQ(json_string("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), R"("\ud800\udc00\udbff\udfff")");
    EXPECT_EQ(json_string("\x80\xff\xed\xb3\xbf"), R"("\udc80\udcff\udced\udcb3\udcbf")"); // not UTF-8: byte by byte
}

// tests/program/bench_test.py reads hw4 bench's pickles with Python's module.
TEST(Pickle, ListsComeInPartsOfAThousand) {
    for (const auto& [count, parts] : {std::pair<size_t, int>{0, 0}, {1, 1}, {1000, 1}, {1001, 2}, {3000, 3}}) {
        Pickle pickle;
        pickle.add_list(count, [&](size_t) { pickle.add(""); });
        const std::string text = pickle.text();
        EXPECT_EQ(std::count(text.begin(), text.end(), '('), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'e'), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'X'), count);
    }
}

TEST(DecimalNumber, ReadsAllOfTheText) {
    EXPECT_EQ(decimal_number("60", 0, 1e9), 60.0);
    EXPECT_EQ(decimal_number("3.5", 0, 1e9), 3.5);
    EXPECT_EQ(decimal_number("1e6", 0, 1e9), 1e6);
    EXPECT_EQ(decimal_number("0", 0, 1e9), 0.0);
}

TEST(DecimalNumber, RefusesAnythingElse) {
    for (const char* text : {"", " ", "-", "+4", " 4", "4 ", "4x", "x", "0x10", "4,5", "nan", "inf", "1e999", "4\n"})
        EXPECT_EQ(decimal_number(text, 0, 1e9), std::nullopt) << "'" << text << "'";
}

TEST(DecimalNumber, KeepsToTheRange) {
    EXPECT_EQ(decimal_number("1", 0, 1), 1.0);
    EXPECT_EQ(decimal_number("1.0000001", 0, 1), std::nullopt);
    EXPECT_EQ(decimal_number("-0.0000001", 0, 1), std::nullopt);
}

TEST(OneLine, KeepsText) {
    for (const char* text : {"", "a.in: no", "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", "\xc2\xa0",
                             "\xe2\x80\xa7 \xe2\x80\xaf", "\xe2\x81\xa5 \xe2\x81\xaa"})
        EXPECT_EQ(one_line(text), text);
}

// Control characters, also in the 8-bit form of some terminals and in UTF-8; characters that break or reverse lines.
TEST(OneLine, ShowsWhatSteersTerminalsAsItsBytes) {
    EXPECT_EQ(one_line(std::string("\0\n\x1f\x7f", 4)), R"(\x00\x0a\x1f\x7f)");
    EXPECT_EQ(one_line("\xc2\x80\xc2\x9b"
                       "31m\xc2\x9f"),
              R"(\xc2\x80\xc2\x9b31m\xc2\x9f)");
    EXPECT_EQ(one_line("\x80 \x9b"
                       "31m \xff"),
              R"(\x80 \x9b31m \xff)");
    // Each string is in two parts: clang-tidy takes a whole one for an attempt to mislead.
    EXPECT_EQ(one_line(std::string("\xe2\x80") + "\xa8"), R"(\xe2\x80\xa8)");
    EXPECT_EQ(one_line(std::string("\xe2\x80") + "\xae"), R"(\xe2\x80\xae)");
    EXPECT_EQ(one_line(std::string("\xe2\x81") + "\xa6"), R"(\xe2\x81\xa6)");
    EXPECT_EQ(one_line(std::string("\xe2\x81") + "\xa9"), R"(\xe2\x81\xa9)");
}

TEST(HostPeak, StaysWhenMemoryIsGivenBack) {
    constexpr size_t kBytes = size_t{256} << 20; // this much returns to the system
    { const std::vector<char> used(kBytes, 'x'); }
    EXPECT_GT(host_peak_bytes(), kBytes);
}

// Both sides of the size from which the memory is aligned to large pages.
constexpr size_t kLargePage = size_t{2} << 20; // bytes
constexpr size_t kAtBoundary = kLargePage / sizeof(uint32_t);
constexpr size_t kCounts[] = {1, kAtBoundary - 1, kAtBoundary, kAtBoundary + 1, 3 * kAtBoundary - 1, 3 * kAtBoundary};

TEST(UntouchedVector, BeginsAtALargePageWhereItFillsOne) {
    for (const size_t count : kCounts) {
        const UntouchedVector<uint32_t> numbers(count);
        if (count >= kAtBoundary) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(numbers.data()) % kLargePage, 0u) << count;
        }
    }
}

} // namespace
} // namespace hw4
