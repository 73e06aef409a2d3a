#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "src/run/engine.h"
#include "src/run/first_failure.h"
#include "src/run/part_queue.h"
#include "src/run/staging_plan.h"
#include "src/run/staging_ring.h"
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

// The sizes of staging buffers, and of the engines' chunks.

constexpr size_t kMiB = size_t{1} << 20;

TEST(StagingPlan, KeepsALargeFileInFewBuffers) {
    for (const Problem& problem :
         {Problem{500, 2048, 64}, Problem{9600, 128, 64}, Problem{1, 1 << 20, 64}, Problem{1 << 24, 1, 1}}) {
        const StagingPlan plan = plan_staging(problem, true, true, {});
        EXPECT_EQ(plan.readers, 8);
        EXPECT_EQ(plan.writers, 4);
        EXPECT_EQ(plan.ring_buffers, 16);
        EXPECT_EQ(plan.piece_bytes, 2 * kMiB);
        EXPECT_EQ(plan.part_bytes, 2 * kMiB);
        EXPECT_EQ(plan.bytes(), 40 * kMiB);
    }
}

// With 12 bytes beside each row of one float, a part has a quarter of the rows.
TEST(StagingPlan, HasRoomForWhatComesWithOutputRows) {
    const Problem problem{1 << 24, 1, 1};
    const StagingPlan plan = plan_staging(problem, true, true, {}, 12);
    EXPECT_EQ(plan.part_bytes, 2 * kMiB);
    EXPECT_EQ(plan.part_rows, static_cast<int64_t>(2 * kMiB / 16));
    EXPECT_EQ(plan.piece_rows, plan_staging(problem, true, true, {}).piece_rows);
    EXPECT_GE(plan_staging({1, 2, 3000}, true, true, {}, 12).part_bytes, size_t{2 * 12012});
}

TEST(StagingPlan, OneThreadForAPipe) {
    const Problem problem{500, 2048, 64};
    EXPECT_EQ(plan_staging(problem, false, true, {}).readers, 1);
    EXPECT_EQ(plan_staging(problem, false, true, {}).writers, 4);
    EXPECT_EQ(plan_staging(problem, true, false, {}).readers, 8);
    EXPECT_EQ(plan_staging(problem, true, false, {}).writers, 1);
}

TEST(StagingPlan, ABufferHoldsAtLeastARow) {
    const StagingPlan plan = plan_staging({3, 5, 10000000}, true, true, {}); // rows of 38 MiB
    EXPECT_EQ(plan.piece_rows, 1);
    EXPECT_EQ(plan.part_rows, 1);
    EXPECT_EQ(plan.ring_buffers, 2);
    EXPECT_EQ(plan.readers, 2);
    EXPECT_GE(plan.piece_bytes, size_t{40000000});
}

TEST(ChunkBatches, FillsEightMebibytes) {
    EXPECT_EQ(chunk_batches_for({13600, 128, 32}, 1), 170); // batches of 48 KiB
    EXPECT_EQ(chunk_batches_for({500, 2048, 64}, 1), 5);    // batches of 1.5 MiB
    EXPECT_EQ(chunk_batches_for({1 << 24, 1, 1}, 1), (8 << 20) / 12);
    EXPECT_EQ(chunk_batches_for({7, 128, 32}, 1), 7);
    EXPECT_EQ(chunk_batches_for({1, 1, 1}, 1), 1);
}

TEST(ChunkBatches, LeavesSomeForEveryPart) {
    EXPECT_EQ(chunk_batches_for({7, 128, 32}, 4), 2); // 2 + 2 + 2 + 1
    EXPECT_EQ(chunk_batches_for({3, 128, 32}, 4), 1);
    EXPECT_EQ(chunk_batches_for({13600, 128, 32}, 4), 170);
    EXPECT_EQ(chunk_batches_for({2, 32768, 64}, 1), 1);                          // batches of 24 MiB
    EXPECT_EQ(chunk_batches_for({100, 16384, 42}, 1), 1);                        // 7.88 MiB
    EXPECT_EQ(chunk_batches_for({100, 8192, 42}, 1), 2);                         // half of 7.88 MiB
    EXPECT_EQ(chunk_batches_for({3, int64_t{1} << 31, int64_t{1} << 27}, 1), 1); // nearly 2^63 bytes
}

TEST(PartQueue, ASlotIsFreeWhenAllItsPartsAreFetched) {
    PartQueue queue;
    queue.wait_fetched(1); // nothing pushed yet
    queue.push({0, 0, 0, 1});
    queue.push({1, 0, 1, 1});
    queue.push({1, 1, 2, 1});
    std::atomic<bool> free{false};
    std::thread waiting([&] {
        queue.wait_fetched(1);
        free = true;
    });
    EXPECT_TRUE(other_threads_sleep_soon());
    queue.fetched(0);
    queue.fetched(1);
    EXPECT_TRUE(other_threads_sleep_soon());
    EXPECT_FALSE(free);
    queue.fetched(1);
    waiting.join();
    EXPECT_TRUE(free);
}

TEST(PartQueue, ACaseIsDoneAfterItsEndAndAllItsParts) {
    PartQueue queue;
    queue.push({0, 0, 0, 1, 7});
    const OutputPart first = *queue.pop();
    EXPECT_FALSE(queue.done(first)) << "more may follow";
    queue.push({0, 1, 1, 1, 7});
    queue.push(end_of_case(7));
    queue.push(end_of_case(8)); // without parts
    const OutputPart second = *queue.pop();
    const OutputPart end = *queue.pop();
    EXPECT_FALSE(queue.done(end)) << "a part is still being written";
    EXPECT_TRUE(queue.done(*queue.pop()));
    EXPECT_TRUE(queue.done(second));
}

// The queue has one pipe or two.
TEST(PartQueue, WhatIsWrittenInTurnIsGivenToOneAtATime) {
    PartQueue queue;
    queue.push({0, 0, 0, 1, 0, true});
    queue.push({1, 0, 0, 1, 1, true});
    const OutputPart first = *queue.pop();
    std::atomic<int> second{-1};
    std::thread writer([&] { second = queue.pop()->of; });
    EXPECT_TRUE(other_threads_sleep_soon());
    EXPECT_EQ(second, -1);
    queue.done(first);
    writer.join();
    EXPECT_EQ(second, 1);
}

} // namespace
} // namespace hw4
