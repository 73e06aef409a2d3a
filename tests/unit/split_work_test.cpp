// Division of few rows' keys: every segment is in the share of one block, block_of(segment); every key is in one part.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/gpu/f32/forward/split_work.h"
#include "src/gpu/half/forward/split_parts.h"

namespace hw4::gpu::split {
namespace {

TEST(SplitWork, EverySegmentIsInTheShareOfOneBlock) {
    for (const int64_t segments : {1, 7, 131, 132, 133, 1000, 4096})
        for (const int64_t blocks : {1, 2, 5, 132, 396, 1001}) {
            const Shares shares{segments, blocks};
            EXPECT_EQ(shares.first(0), 0);
            EXPECT_EQ(shares.first(blocks), segments);
            for (int64_t segment = 0; segment < segments; ++segment) {
                const int64_t block = shares.block_of(segment);
                EXPECT_LE(shares.first(block), segment);
                EXPECT_GT(shares.first(block + 1), segment);
            }
            for (int64_t block = 0; block < blocks; ++block)
                EXPECT_LE(shares.first(block + 1) - shares.first(block), (segments + blocks - 1) / blocks);
        }
}

TEST(SplitWork, AUnitHasSegmentsInTwoBlocksAtMost) {
    for (const int64_t unit : {1, 2, 7, 128})
        for (const int64_t units : {1, 3, 132, 400})
            for (const int64_t blocks : {1, 2, 132, 396}) {
                const Shares shares{unit * units, blocks};
                int64_t most = 0;
                for (int64_t i = 0; i < units; ++i)
                    most = std::max(most, shares.block_of((i + 1) * unit - 1) - shares.block_of(i * unit));
                if (shares.are_larger_than(unit)) {
                    EXPECT_LE(most, 1) << unit << " " << units << " " << blocks;
                }
            }
}

// The product of segments and blocks exceeds 2^32.
TEST(SplitWork, TakesManySegments) {
    const Shares shares{int64_t{1} << 40, 396};
    for (const int64_t block : {0, 1, 200, 395}) {
        EXPECT_EQ(shares.block_of(shares.first(block)), block);
        EXPECT_EQ(shares.block_of(shares.first(block + 1) - 1), block);
    }
}

TEST(SplitParts, FollowOneAnother) {
    EXPECT_EQ(half_forward::first_key_of(0), 0);
    EXPECT_EQ(half_forward::parts_of(0), 0);
    for (int part = 0; part < 50; ++part) {
        const int first = half_forward::first_key_of(part);
        const int end = half_forward::first_key_of(part + 1);
        ASSERT_LT(first, end);
        for (int key = first; key < end; ++key) ASSERT_EQ(half_forward::part_of(key), part) << key;
        EXPECT_EQ(half_forward::parts_of(end), part + 1);
        EXPECT_EQ(half_forward::parts_of(end + 1), part + 2);
    }
}

} // namespace
} // namespace hw4::gpu::split
