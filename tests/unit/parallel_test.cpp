#include "src/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/sleeping_threads.h"

namespace hw4 {
namespace {

TEST(InPieces, AreAllDoneOnce) {
    for (const size_t things : {0u, 1u, 9u, 10u, 11u, 1005u}) {
        std::vector<int> done(things);
        const auto work = [&](size_t first, size_t count) {
            for (size_t i = first; i < first + count; ++i) ++done[i];
        };
        in_pieces(things, 10, work);
        in_throwing_pieces(things, 10, work, 3);
        EXPECT_EQ(done, std::vector<int>(things, 2)) << things;
    }
}

// Both pieces begin; the one that does not throw ends last.
TEST(InPieces, ThrowWhenAllHaveEnded) {
    for (int round = 0; round < 100; ++round) {
        Gate other_began;
        std::atomic<bool> other_ended{false};
        const auto work = [&](size_t piece, size_t) {
            if (piece == 0) {
                other_began.wait();
                throw std::runtime_error("broken");
            }
            other_began.open();
            std::this_thread::yield();
            other_ended = true;
        };
        EXPECT_THROW(in_throwing_pieces(2, 1, work, 2), std::runtime_error);
        ASSERT_TRUE(other_ended) << round;
    }
}

TEST(InPieces, EndAfterTheFirstThatThrows) {
    size_t begun = 0;
    const auto work = [&](size_t piece, size_t) {
        ++begun;
        if (piece >= 3) throw std::runtime_error(std::to_string(piece));
    };
    try {
        in_throwing_pieces(100, 1, work, 1);
        FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "3");
    }
    EXPECT_EQ(begun, 4u);
}

TEST(Gate, LetsEveryWaitingThreadThrough) {
    Gate gate;
    std::vector<std::thread> waiting;
    for (int i = 0; i < 3; ++i) waiting.emplace_back([&] { gate.wait(); });
    EXPECT_TRUE(other_threads_sleep_soon());
    gate.open();
    for (std::thread& thread : waiting) thread.join();
    gate.wait(); // a later call returns at once
}

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

// The caller has no work left, but another thread has.
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
