#include "src/commands/run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace hw4 {
namespace {

std::string remark(const Problem& problem) {
    testing::internal::CaptureStderr();
    remark_unusual("a.in", problem);
    return testing::internal::GetCapturedStderr();
}

TEST(CourseRange, HasEveryCaseOfTheCourse) {
    std::ifstream table("testcases/cases.tsv");
    int cases = 0;
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        std::string name;
        Problem problem;
        if (line[0] != 't' || !(fields >> name >> problem.batches >> problem.queries >> problem.dim)) continue;
        problem.keys = problem.queries;
        EXPECT_EQ(remark(problem), "") << name;
        ++cases;
    }
    EXPECT_EQ(cases, 30);
}

TEST(CourseRange, EndsWhereTheCourseDoes) {
    for (const Problem& problem :
         {Problem(1, 128, 32), Problem(14001, 128, 32), Problem(2, 64, 32), Problem(2, 192, 32), Problem(2, 65536, 32),
          Problem(2, 128, 48), Problem(9601, 128, 64)})
        EXPECT_EQ(remark(problem),
                  "hw4: a.in: note: outside the course's range (B 2..14000, N a power of two 128..32768, d 32 or 64, "
                  "B*N*d up to 78643200)\n");
}

} // namespace
} // namespace hw4
