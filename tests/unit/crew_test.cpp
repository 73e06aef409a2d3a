
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "src/base/parallel.h"

namespace hw4 {
namespace {

TEST(Crew, DoesAllOfTheWorkEachTime) {
    Crew crew;
    for (int round = 0; round < 2000; ++round) {
        constexpr int kPieces = 17;
        std::atomic<int> next{0};
        std::atomic<int> done{0};
        crew.run(1 + round % 5, [&] {
            while (next.fetch_add(1) < kPieces) done.fetch_add(1);
        });
        ASSERT_EQ(done, kPieces) << round;
    }
}

TEST(Crew, TakesNoMoreThanThat) {
    Crew crew;
    std::atomic<int> begun{0};
    const auto count = [&] { begun.fetch_add(1); };
    crew.run(8, count);
    for (int round = 0; round < 1000; ++round) {
        begun = 0;
        crew.run(2, count);
        ASSERT_LE(begun, 2);
        ASSERT_GE(begun, 1);
    }
}

// The caller has nothing left to do; another one has.
TEST(Crew, ReturnsWhenTheLastOfThemIsDone) {
    Crew crew;
    for (int round = 0; round < 20; ++round) {
        Gate other_began;
        std::atomic<bool> other_done{false};
        const std::thread::id caller = std::this_thread::get_id();
        crew.run(2, [&] {
            if (std::this_thread::get_id() == caller) return other_began.wait();
            other_began.open();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            other_done = true;
        });
        ASSERT_TRUE(other_done) << round;
    }
}

} // namespace
} // namespace hw4
