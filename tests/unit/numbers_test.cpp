#include "src/base/numbers.h"

#include <gtest/gtest.h>

#include <limits>

namespace hw4 {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(WholeNumber, ReadsAllOfTheText) {
    EXPECT_EQ(whole_number("0", kLeast, kMost), 0);
    EXPECT_EQ(whole_number("-17", kLeast, kMost), -17);
    EXPECT_EQ(whole_number("007", kLeast, kMost), 7);
    EXPECT_EQ(whole_number("9223372036854775807", kLeast, kMost), kMost);
    EXPECT_EQ(whole_number("-9223372036854775808", kLeast, kMost), kLeast);
}

TEST(WholeNumber, RefusesAnythingElse) {
    for (const char* text : {"", " ", "-", "+4", " 4", "4 ", "4x", "x4", "4.0", "1e3", "0x10", "--4", "4\n",
                             "9223372036854775808", "-9223372036854775809", "99999999999999999999999999"})
        EXPECT_EQ(whole_number(text, kLeast, kMost), std::nullopt) << "'" << text << "'";
    EXPECT_EQ(whole_number(std::string_view("4\0", 2), kLeast, kMost), std::nullopt);
}

TEST(WholeNumber, KeepsToTheRange) {
    EXPECT_EQ(whole_number("1", 1, 16), 1);
    EXPECT_EQ(whole_number("16", 1, 16), 16);
    EXPECT_EQ(whole_number("0", 1, 16), std::nullopt);
    EXPECT_EQ(whole_number("17", 1, 16), std::nullopt);
    EXPECT_EQ(whole_number("-1", 1, 16), std::nullopt);
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

} // namespace
} // namespace hw4
