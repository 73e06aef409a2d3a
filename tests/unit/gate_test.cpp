#include "src/base/parallel.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/sleeping_threads.h"

namespace hw4 {
namespace {

TEST(Gate, LetsEverybodyThroughWhoWaits) {
    Gate gate;
    std::vector<std::thread> waiting;
    for (int i = 0; i < 3; ++i) waiting.emplace_back([&] { gate.wait(); });
    EXPECT_TRUE(test::other_threads_sleep_soon());
    gate.open();
    for (std::thread& thread : waiting) thread.join();
    gate.wait(); // and whoever comes later
}

} // namespace
} // namespace hw4
