// Texts, numbers, memory and threads of src/base.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/base/error.h"
#include "src/base/host_memory.h"
#include "src/base/json.h"
#include "src/base/numbers.h"
#include "src/base/parallel.h"
#include "src/base/pickle.h"
#include "src/base/untouched_vector.h"
#include "src/run/output_checksum.h"
#include "src/run/timeline.h"
#include "tests/support/sleeping_threads.h"

namespace hw4 {
namespace {

TEST(JsonText, EscapesOddFileNames) {
    EXPECT_EQ(json_string("a \"b\" \\c/d"), R"("a \"b\" \\c/d")");
    EXPECT_EQ(json_string("tab\tline\nend\r"), R"("tab\u0009line\u000aend\u000d")");
    EXPECT_EQ(json_string("\x01\x1f\x7f"), R"("\u0001\u001f\u007f")");
    EXPECT_EQ(json_string("\xc3\xa9\xe6\xbc\xa2"), R"("\u00e9\u6f22")");
    EXPECT_EQ(json_string("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), R"("\ud800\udc00\udbff\udfff")");
    EXPECT_EQ(json_string("\x80\xff\xed\xb3\xbf"), R"("\udc80\udcff\udced\udcb3\udcbf")"); // not UTF-8: byte by byte
}

// tests/program/bench_test.py reads hw4 bench's pickles with Python's module.
TEST(Pickle, ListsComeInPartsOfAThousand) {
    for (const auto& [count, parts] : {std::pair<size_t, int>{0, 0}, {1, 1}, {1000, 1}, {1001, 2}, {3000, 3}}) {
        Pickle pickle;
        pickle.add_list(count, [&](size_t) { pickle.add(""); });
        const std::string text = pickle.text();
        EXPECT_EQ(std::count(text.begin(), text.end(), '('), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'e'), parts) << count;
        EXPECT_EQ(std::count(text.begin(), text.end(), 'X'), count);
    }
}

TEST(DecimalNumber, ReadsAllOfTheText) {
    EXPECT_EQ(decimal_number("60", 0, 1e9), 60.0);
    EXPECT_EQ(decimal_number("3.5", 0, 1e9), 3.5);
    EXPECT_EQ(decimal_number("1e6", 0, 1e9), 1e6);
    EXPECT_EQ(decimal_number("0", 0, 1e9), 0.0);
}

TEST(DecimalNumber, RefusesAnythingElse) {
    for (const char* text : {"", " ", "-", "+4", " 4", "4 ", "4x", "x", "0x10", "4,5", "nan", "inf", "1e999", "4\n"})
        EXPECT_EQ(decimal_number(text, 0, 1e9), std::nullopt) << "'" << text << "'";
}

TEST(DecimalNumber, KeepsToTheRange) {
    EXPECT_EQ(decimal_number("1", 0, 1), 1.0);
    EXPECT_EQ(decimal_number("1.0000001", 0, 1), std::nullopt);
    EXPECT_EQ(decimal_number("-0.0000001", 0, 1), std::nullopt);
}

TEST(OneLine, KeepsText) {
    for (const char* text : {"", "a.in: no", "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", "\xc2\xa0",
                             "\xe2\x80\xa7 \xe2\x80\xaf", "\xe2\x81\xa5 \xe2\x81\xaa"})
        EXPECT_EQ(one_line(text), text);
}

// Control characters, also in the 8-bit form of some terminals and in UTF-8; characters that break or reverse lines.
TEST(OneLine, ShowsWhatSteersTerminalsAsItsBytes) {
    EXPECT_EQ(one_line(std::string("\0\n\x1f\x7f", 4)), R"(\x00\x0a\x1f\x7f)");
    EXPECT_EQ(one_line("\xc2\x80\xc2\x9b"
                       "31m\xc2\x9f"),
              R"(\xc2\x80\xc2\x9b31m\xc2\x9f)");
    EXPECT_EQ(one_line("\x80 \x9b"
                       "31m \xff"),
              R"(\x80 \x9b31m \xff)");
    // Each string is in two parts: clang-tidy takes a whole one for an attempt to mislead.
    EXPECT_EQ(one_line(std::string("\xe2\x80") + "\xa8"), R"(\xe2\x80\xa8)");
    EXPECT_EQ(one_line(std::string("\xe2\x80") + "\xae"), R"(\xe2\x80\xae)");
    EXPECT_EQ(one_line(std::string("\xe2\x81") + "\xa6"), R"(\xe2\x81\xa6)");
    EXPECT_EQ(one_line(std::string("\xe2\x81") + "\xa9"), R"(\xe2\x81\xa9)");
}

TEST(HostPeak, StaysWhenMemoryIsGivenBack) {
    constexpr size_t kBytes = size_t{256} << 20; // this much returns to the system
    { const std::vector<char> used(kBytes, 'x'); }
    EXPECT_GT(host_peak_bytes(), kBytes);
}

// Both sides of the size from which the memory is aligned to large pages.
constexpr size_t kLargePage = size_t{2} << 20; // bytes
constexpr size_t kAtBoundary = kLargePage / sizeof(uint32_t);
constexpr size_t kCounts[] = {1, kAtBoundary - 1, kAtBoundary, kAtBoundary + 1, 3 * kAtBoundary - 1, 3 * kAtBoundary};

TEST(UntouchedVector, BeginsAtALargePageWhereItFillsOne) {
    for (const size_t count : kCounts) {
        const UntouchedVector<uint32_t> numbers(count);
        if (count >= kAtBoundary) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(numbers.data()) % kLargePage, 0u) << count;
        }
    }
}

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

// What a run reports: the times of its stages, and the checksum of its output.

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
