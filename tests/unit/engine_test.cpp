#include "src/run/engine.h"

#include <gtest/gtest.h>

namespace hw4 {
namespace {

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

} // namespace
} // namespace hw4
