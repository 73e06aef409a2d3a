#include "src/bench/command_line.h"

#include <gtest/gtest.h>

#include <stdexcept>

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

TEST(TimerCommandLine, CountsAreWholeNumbersFromOne) {
    EXPECT_EQ(parse_runs("1"), 1);
    EXPECT_EQ(parse_runs("1000000"), kMostRuns);
    EXPECT_EQ(refusal([] { parse_runs("0"); }), "--runs '0': need a whole number from 1 to 1000000");
    EXPECT_EQ(refusal([] { parse_runs("1000001"); }), "--runs '1000001': need a whole number from 1 to 1000000");
    EXPECT_EQ(parse_launches("7"), 7);
    EXPECT_EQ(parse_launches("auto"), 0);
    EXPECT_EQ(refusal([] { parse_launches("0"); }), "--launches '0': need a whole number from 1 to 1000");
}

TEST(TimerCommandLine, ScratchMemoryIsWholeMebibytesOrAll) {
    EXPECT_EQ(parse_scratch("0"), 0u);
    EXPECT_EQ(parse_scratch("64"), size_t{64} << 20);
    EXPECT_EQ(parse_scratch("all"), std::numeric_limits<size_t>::max());
    for (const char* text : {"", "-1", "1.5", "some", "1073741825"})
        EXPECT_EQ(refusal([&] { parse_scratch(text); }),
                  "--scratch-mib '" + std::string(text) + "': need all or a whole number from 0 to 1073741824");
}

TEST(TimerCommandLine, ElementsHaveNames) {
    for (const Element element : kEveryElement) EXPECT_EQ(parse_element(name_of(element)), element);
    EXPECT_EQ(refusal([] { parse_element("fp32"); }), "--elements 'fp32': need float32, bf16 or fp16");
}

TEST(TimerCommandLine, AFailureIsOneLineAndItsCode) {
    EXPECT_EQ(run_program("timer", [] {}), 0);
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_program("timer", [] { throw Error(ExitCode::no_gpu, "no card"); }), 69);
    EXPECT_EQ(run_program("timer", [] { throw std::runtime_error("odd"); }), 70);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "timer: no card\ntimer: odd\n");
}

} // namespace
} // namespace hw4::gpu
