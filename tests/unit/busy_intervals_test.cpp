#include "src/run/busy_intervals.h"

#include <gtest/gtest.h>

namespace hw4 {
namespace {

double busy(const std::vector<std::pair<double, double>>& intervals) {
    BusyIntervals all;
    for (const auto& [from, to] : intervals) all.add(from, to);
    return all.seconds();
}

TEST(BusyIntervalsTest, CountsOverlapsOnce) {
    EXPECT_EQ(busy({}), 0.0);
    EXPECT_EQ(busy({{1, 3}}), 2.0);
    EXPECT_EQ(busy({{1, 3}, {4, 5}}), 3.0);
    EXPECT_EQ(busy({{2, 4}, {1, 3}}), 3.0);
    EXPECT_EQ(busy({{1, 10}, {2, 3}, {4, 5}}), 9.0);
    EXPECT_EQ(busy({{0, 1}, {1, 2}, {1, 2}}), 2.0);
}

} // namespace
} // namespace hw4
