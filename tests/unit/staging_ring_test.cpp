#include "src/run/staging_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <thread>

#include "src/run/first_failure.h"
#include "tests/support/sleeping_threads.h"

namespace hw4 {
namespace {

// Findings that name their piece.
Findings marked(int64_t piece) {
    Findings findings;
    findings.first.batch = piece;
    return findings;
}

TEST(StagingRing, GivesOutNoMorePiecesThanThereAreBuffers) {
    StagingRing ring(5, 2);
    EXPECT_EQ(ring.take(), 0);
    EXPECT_EQ(ring.take(), 1);
    std::optional<int64_t> third;
    std::thread reader([&] { third = ring.take(); });
    ring.filled(1, marked(1));
    ring.filled(0, marked(0));
    EXPECT_EQ(ring.wait_filled(0).first.batch, 0);
    EXPECT_TRUE(test::other_threads_sleep_soon());
    EXPECT_FALSE(third.has_value());
    ring.release(0);
    reader.join();
    EXPECT_EQ(third, 2);
    EXPECT_EQ(ring.buffer_of(2), 0);
}

TEST(StagingRing, GivesEveryPieceOnceAndInOrder) {
    constexpr int64_t kPieces = 2000;
    StagingRing ring(kPieces, 3);
    std::vector<std::thread> readers;
    for (unsigned i = 0; i < 5; ++i)
        readers.emplace_back([&ring, i] {
            std::mt19937 random(i);
            while (const auto piece = ring.take()) {
                if (random() % 4 == 0) std::this_thread::yield();
                ring.filled(*piece, marked(*piece));
            }
        });
    for (int64_t piece = 0; piece < kPieces; ++piece) {
        ASSERT_EQ(ring.wait_filled(piece).first.batch, piece);
        ring.release(piece);
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(ring.take(), std::nullopt);
}

TEST(StagingRing, APieceThatFailedIsNoticedInItsTurn) {
    StagingRing ring(9, 3);
    EXPECT_EQ(ring.take(), 0);
    EXPECT_EQ(ring.take(), 1);
    ring.failed(1, std::make_exception_ptr(std::runtime_error("unreadable")));
    EXPECT_EQ(ring.take(), std::nullopt) << "what follows is not needed";
    ring.filled(0, marked(0));
    EXPECT_EQ(ring.wait_filled(0).first.batch, 0);
    ring.release(0);
    EXPECT_THROW(ring.wait_filled(1), std::runtime_error);
}

// The taker, by what it waits for; a reader, since nothing that follows is needed.
TEST(StagingRing, APieceThatFailedWakesWhoWaits) {
    StagingRing ring(9, 1);
    EXPECT_EQ(ring.take(), 0);
    std::optional<int64_t> taken = 7;
    std::thread reader([&] { taken = ring.take(); });
    std::thread taker([&] { EXPECT_THROW(ring.wait_filled(0), std::runtime_error); });
    EXPECT_TRUE(test::other_threads_sleep_soon());
    ring.failed(0, std::make_exception_ptr(std::runtime_error("unreadable")));
    reader.join();
    taker.join();
    EXPECT_EQ(taken, std::nullopt);
}

TEST(StagingRing, StopWakesEverybody) {
    StagingRing ring(9, 1);
    EXPECT_EQ(ring.take(), 0);
    std::optional<int64_t> taken = 7;
    std::thread reader([&] { taken = ring.take(); });
    std::thread taker([&] { EXPECT_THROW(ring.wait_filled(0), Stopped); });
    EXPECT_TRUE(test::other_threads_sleep_soon());
    ring.stop();
    reader.join();
    taker.join();
    EXPECT_EQ(taken, std::nullopt);
}

} // namespace
} // namespace hw4
