#include "src/base/numbers.h"

#include <gtest/gtest.h>

namespace hw4 {
namespace {

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
