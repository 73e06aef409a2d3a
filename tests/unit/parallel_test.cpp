#include "src/base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

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

// Both begin; the one that does not throw ends after the other.
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

} // namespace
} // namespace hw4
