#include "src/commands/bench_values.h"

#include <gtest/gtest.h>

namespace hw4::bench {
namespace {

using Numbers = std::vector<int64_t>;

TEST(NumberList, NumbersAndRanges) {
    EXPECT_EQ(number_list("512", 1, 1 << 20), Numbers{512});
    EXPECT_EQ(number_list("512,1k..16k*2", 1, 1 << 20), (Numbers{512, 1024, 2048, 4096, 8192, 16384}));
    EXPECT_EQ(number_list("128..512", 1, 1 << 20), (Numbers{128, 256, 512}));
    EXPECT_EQ(number_list("3..20*3,5", 1, 1 << 20), (Numbers{3, 9, 5}));
    EXPECT_EQ(number_list("0..5+2", 0, 10), (Numbers{0, 2, 4}));
    EXPECT_EQ(number_list("7..7", 1, 10), Numbers{7});
    EXPECT_EQ(number_list("1m", 1, 1 << 20), Numbers{1 << 20});
    EXPECT_EQ(number_list("1M..1G*10", 1, 1 << 30), (Numbers{1 << 20, 10 << 20, 100 << 20, 1000 << 20}));
}

TEST(NumberList, EndsWhereNumbersDo) {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    EXPECT_EQ(number_list("1..9223372036854775807*4611686018427387904", 1, most), (Numbers{1, 4611686018427387904}));
    EXPECT_EQ(number_list("9223372036854775806..9223372036854775807+1", 1, most), (Numbers{9223372036854775806, most}));
    EXPECT_EQ(number_list("9223372036854775807k", 1, most), std::nullopt);
}

TEST(NumberList, RefusesAllElse) {
    for (const char* text : {"",       ",",     "1,",     "x",      "1k2",   "k",      "..", "1..", "..2", "2..1",
                             "1..8*1", "1..8*", "1..8+0", "1..8-1", "1...8", "0..4*2", "-1", "1 2", "11",  "1..2000+1"})
        EXPECT_EQ(number_list(text, 0, 10), std::nullopt) << text;
    EXPECT_EQ(number_list("1..2000+1", 1, 5000), std::nullopt); // more than kMostNumbers
}

} // namespace
} // namespace hw4::bench
