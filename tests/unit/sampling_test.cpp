#include "src/bench/sampling.h"

#include <gtest/gtest.h>

namespace hw4::gpu {
namespace {

TEST(Sampling, ShortKernelsAreLaunchedUntilASampleLasts) {
    EXPECT_EQ(launches_for(0.039e-3), 257);
    EXPECT_EQ(launches_for(0.004), 3);
    EXPECT_EQ(launches_for(kSampleSeconds), 1);
    EXPECT_EQ(launches_for(0.85), 1);
    EXPECT_EQ(launches_for(1e-9), kMostLaunches);
    EXPECT_EQ(launches_for(0.0), kMostLaunches); // shorter than the clock can tell
}

TEST(Sampling, SlowSamplesAreFewer) {
    EXPECT_EQ(runs_for(0.007, 20), 20);
    EXPECT_EQ(runs_for(kSlowSample, 20), 20);
    EXPECT_EQ(runs_for(0.1, 20), 10);
    EXPECT_EQ(runs_for(0.85, 20), kLeastRuns);
    EXPECT_EQ(runs_for(0.85, 2), 2); // never more than asked for
    EXPECT_EQ(runs_for(0.85, 200), 11);
}

} // namespace
} // namespace hw4::gpu
