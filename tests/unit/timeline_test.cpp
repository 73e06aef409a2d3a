// What a run reports: the times of its stages, and the checksum of its output.
#include "src/run/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "src/run/output_checksum.h"

namespace hw4 {
namespace {

TEST(Timeline, ABusyStageCountsOnceHoweverManyWorkInIt) {
    const TimelineSummary summary = summarise({{0, Stage::read, 0.0, 2.0, 100},
                                               {0, Stage::read, 0.5, 1.0, 0}, // inside the first
                                               {1, Stage::read, 1.0, 3.0, 50},
                                               {2, Stage::write, 2.0, 4.0, 7},
                                               {3, Stage::kernel, 6.0, 7.0, 0}});
    EXPECT_DOUBLE_EQ(summary[Stage::read].seconds, 3.0);
    EXPECT_EQ(summary[Stage::read].bytes, 150u);
    EXPECT_DOUBLE_EQ(summary[Stage::write].seconds, 2.0);
    EXPECT_EQ(summary[Stage::write].bytes, 7u);
    EXPECT_DOUBLE_EQ(summary[Stage::copy_in].seconds, 0.0);
    EXPECT_DOUBLE_EQ(summary.overlap, 6.0 / 5.0);
    EXPECT_DOUBLE_EQ(summarise({}).overlap, 0.0);
}

TEST(SpanRecorder, WritesDownWhatItTimes) {
    Timeline timeline;
    const SpanRecorder recorder(&timeline, "reader 0");
    EXPECT_EQ(recorder.time(Stage::check, 12, [] { return 5; }), 5);
    EXPECT_THROW(recorder.time(Stage::read, 1, [] { throw 1; }), int);
    ASSERT_EQ(timeline.spans().size(), 2u);
    EXPECT_EQ(timeline.spans()[0].stage, Stage::check);
    EXPECT_EQ(timeline.spans()[0].bytes, 12u);
    EXPECT_LE(timeline.spans()[0].from, timeline.spans()[0].to);
    EXPECT_LE(timeline.spans()[0].to, timeline.spans()[1].from);
    EXPECT_EQ(timeline.tracks()[0].name, "reader 0");
    EXPECT_FALSE(timeline.tracks()[0].on_gpu);
}

TEST(Timeline, TakesSpansFromSeveralThreads) {
    Timeline timeline;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&timeline, i] {
            const SpanRecorder recorder(&timeline, "thread " + std::to_string(i));
            for (int j = 0; j < 100; ++j) recorder.time(Stage::write, 1, [] {});
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(timeline.tracks().size(), 4u);
    EXPECT_EQ(summarise(timeline.spans())[Stage::write].bytes, 400u);
}

TEST(OutputChecksum, OfAKnownText) {
    EXPECT_EQ(OutputChecksum::of("123456789", 9), "cbf43926"); // the check value of CRC-32
}

TEST(OutputChecksum, DoesNotDependOnTheParts) {
    std::vector<unsigned char> bytes(10007);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(3));
    OutputChecksum whole;
    whole.add(0, bytes.data(), bytes.size());
    for (const size_t part : {1u, 64u, 1000u, 9999u}) {
        OutputChecksum backwards;
        for (size_t at = (bytes.size() - 1) / part * part;; at -= part) {
            backwards.add(at, bytes.data() + at, std::min(part, bytes.size() - at));
            if (at == 0) break;
        }
        EXPECT_EQ(backwards.text(), whole.text()) << part;
    }
}

} // namespace
} // namespace hw4
