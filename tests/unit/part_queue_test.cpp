#include "src/run/part_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/sleeping_threads.h"

namespace hw4 {
namespace {

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

// For one pipe or two.
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
