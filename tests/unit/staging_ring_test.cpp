#include "src/run/staging_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <stdexcept>
#include <thread>

#include "src/run/first_failure.h"
#include "tests/support/sleeping_threads.h"

namespace hw4 {
namespace {

// Findings that name their piece.
Findings marked(const StagedPiece& staged) {
    Findings findings;
    findings.first.batch = staged.piece;
    return findings;
}

std::exception_ptr unreadable() { return std::make_exception_ptr(std::runtime_error("unreadable")); }

// The next piece, which must be available at once.
StagedPiece take_now(StagingRing& ring) { return ring.take().value(); }

void expect_piece(const std::optional<StagedPiece>& staged, int of, int64_t piece) {
    ASSERT_TRUE(staged.has_value());
    EXPECT_EQ(staged->of, of);
    EXPECT_EQ(staged->piece, piece);
}

TEST(StagingRing, GivesOutNoMorePiecesThanThereAreBuffers) {
    for (const auto& [buffers, of_case] : {std::pair{2, 5}, {5, 2}}) {
        StagingRing ring(buffers);
        ring.add({5, of_case, false});
        const StagedPiece first = take_now(ring);
        const StagedPiece second = take_now(ring);
        expect_piece(first, 0, 0);
        expect_piece(second, 0, 1);
        std::optional<StagedPiece> third;
        std::thread reader([&third, &ring] { third = ring.take(); });
        ring.filled(second, marked(second));
        ring.filled(first, marked(first));
        EXPECT_EQ(ring.wait_filled(0)->findings.first.batch, 0);
        EXPECT_TRUE(other_threads_sleep_soon());
        EXPECT_FALSE(third.has_value());
        ring.release(first);
        reader.join();
        expect_piece(third, 0, 2);
        EXPECT_EQ(ring.buffer_of(*third), 2 % buffers);
    }
}

// Cases of any number of pieces, also without any.
TEST(StagingRing, GivesEveryPieceOnceAndInOrder) {
    constexpr std::array<int64_t, 6> kPieces = {1000, 1, 0, 2, 997, 0};
    StagingRing ring(3);
    std::vector<std::thread> readers;
    for (unsigned i = 0; i < 5; ++i)
        readers.emplace_back([&ring, i] {
            std::mt19937 random(i);
            while (const auto staged = ring.take()) {
                if (random() % 4 == 0) std::this_thread::yield();
                ring.filled(*staged, marked(*staged));
            }
        });
    for (const int64_t pieces : kPieces) ring.add({pieces, 3, false});
    ring.close();
    for (int of = 0; of < static_cast<int>(kPieces.size()); ++of) {
        int64_t next = 0;
        for (; const auto filled = ring.wait_filled(of); ++next) {
            expect_piece(filled->staged, of, next);
            ASSERT_EQ(filled->findings.first.batch, next);
            ring.release(filled->staged);
        }
        EXPECT_EQ(next, kPieces[static_cast<size_t>(of)]);
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_FALSE(ring.take().has_value());
}

TEST(StagingRing, AStreamIsReadByOneAtATime) {
    StagingRing ring(4);
    ring.add({2, 4, true});
    ring.add({1, 4, true});
    const StagedPiece first = take_now(ring);
    std::optional<StagedPiece> second;
    std::thread reader([&] { second = ring.take(); });
    EXPECT_TRUE(other_threads_sleep_soon());
    EXPECT_FALSE(second.has_value());
    ring.filled(first, {});
    reader.join();
    expect_piece(second, 0, 1);
    expect_piece(ring.take(), 1, 0); // another stream
}

TEST(StagingRing, APieceThatFailedIsNoticedInItsTurnAndEndsItsCase) {
    StagingRing ring(3);
    ring.add({9, 3, false});
    ring.add({1, 3, false});
    const StagedPiece first = take_now(ring);
    const StagedPiece second = take_now(ring);
    ring.failed(second, unreadable());
    expect_piece(ring.take(), 1, 0); // the rest of that case is not needed
    ring.filled(first, marked(first));
    EXPECT_FALSE(ring.wait_filled(0)->error);
    ring.release(first);
    EXPECT_TRUE(ring.wait_filled(0)->error);
    ring.release(second);
    EXPECT_FALSE(ring.wait_filled(0).has_value());
}

TEST(StagingRing, StopWakesEverybody) {
    StagingRing ring(1);
    ring.add({9, 1, false});
    std::optional<StagedPiece> taken = take_now(ring);
    std::thread reader([&] { taken = ring.take(); });
    std::thread taker([&] { EXPECT_THROW(ring.wait_filled(0), Stopped); });
    EXPECT_TRUE(other_threads_sleep_soon());
    ring.stop();
    reader.join();
    taker.join();
    EXPECT_FALSE(taken.has_value());
}

} // namespace
} // namespace hw4
