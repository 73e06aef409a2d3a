#include <gtest/gtest.h>

#include <string>

#include "src/base/error.h"

namespace hw4 {
namespace {

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

} // namespace
} // namespace hw4
