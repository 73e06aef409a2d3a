#include "src/bench/timing_table.h"

#include <gtest/gtest.h>

namespace hw4::gpu {
namespace {

TimedKernel example() {
    return {"drawn_tiles", true, {4, 16384, 64}, CaseKind::uniform, {2, {0.006, 0.005, 0.004, 0.007, 0.003}}};
}

TEST(TimingTable, NumbersStandUnderTheirTitles) {
    EXPECT_EQ(table_head() + table_row(example()),
              "kernel              B,N,d              kind       median ms    p20 ms    p80 ms  TFLOP/s  samples\n"
              "drawn_tiles *       4,16384,64         uniform       5.0000    3.8000    6.2000    54.98        5\n");
    TimedKernel other = example();
    other.chosen = false;
    other.problem.mask = Mask::causal;
    other.kind = {CaseKind::normal, 30};
    EXPECT_EQ(table_row(other),
              "drawn_tiles         4,16384,64 causal  normal:30     5.0000    3.8000    6.2000    27.49        5\n");
}

TEST(TimingTable, CsvHasAFieldForEachName) {
    EXPECT_EQ(csv_row(example()), "drawn_tiles,true,4,16384,64,none,uniform,2,5,0.005,0.0038,0.0062,54.9756\n");
    const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
    EXPECT_EQ(commas(csv_head()), commas(csv_row(example())));
}

} // namespace
} // namespace hw4::gpu
