#include "src/bench/command_line.h"

#include <gtest/gtest.h>

namespace hw4::gpu {
namespace {

// What it says, when it is wrong usage.
template <class Parse>
std::string refusal(Parse parse) {
    try {
        parse();
    } catch (const Error& error) {
        return error.code() == ExitCode::usage ? error.what() : "not as wrong usage";
    }
    return "";
}

TEST(TimerCommandLine, AShapeIsThreeNumbers) {
    const Problem problem = parse_shape("4,16384,64");
    EXPECT_EQ(problem.batches, 4);
    EXPECT_EQ(problem.queries, 16384);
    EXPECT_EQ(problem.dim, 64);
    for (const char* text :
         {"", "4", "4,5", "4,5,", "4,5,6,", "4,5,6,7", "4,5,0", "4,-5,6", "4, 5,6", "4,5,6x", "a,b,c"})
        EXPECT_EQ(refusal([&] { parse_shape(text); }), "shape '" + std::string(text) + "': need B,N,d");
}

} // namespace
} // namespace hw4::gpu
