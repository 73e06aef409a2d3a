// Division of a kernel's work among its blocks: every tile of every job once, a job's tiles in order and never two at a
// time, and about equally many tiles per block.
#include "src/gpu/common/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/gpu/fixed/forward/card_plan.h"
#include "tests/support/division.h"

namespace hw4::gpu::fixed_point {
namespace {

struct DivisionForMost : Division {
    int64_t most_blocks;

    template <class Tiles>
    DivisionForMost(int64_t units, const Tiles& tiles, int64_t most) : most_blocks(most) {
        const auto shares = SharesOf<Tiles>::of(units, tiles, most);
        EXPECT_LE(shares.blocks.number(), most);
        for (uint32_t block = 0; block < shares.blocks.number(); ++block) {
            const Share share = shares.share(block);
            add_block(0, share.parts, [&](uint32_t i) { return share.part(i, tiles); });
        }
    }
};

JobTiles equal_jobs(unsigned tiles, uint32_t jobs_of_unit = 1) {
    return {Divisor(jobs_of_unit), tiles, static_cast<int>(tiles), 0};
}

class EachDivision : public testing::Test {
protected:
    template <class Check>
    static void for_each(const Check& check) {
        for (const int64_t blocks : {1, 2, 3, 7, 132, 396})
            for (const int64_t jobs : {int64_t{1}, blocks - 1, blocks, blocks + 1, blocks + blocks / 2, 2 * blocks - 1,
                                       2 * blocks, 2 * blocks + 1, 5 * blocks + 2})
                for (const unsigned tiles : {1u, 2u, 3u, 17u, 64u}) {
                    if (jobs < 1) continue;
                    SCOPED_TRACE(std::to_string(jobs) + " jobs of " + std::to_string(tiles) + " tiles for " +
                                 std::to_string(blocks) + " blocks");
                    const JobTiles each = equal_jobs(tiles);
                    check(jobs, each, DivisionForMost(jobs, each, blocks));
                }
        for_each_rising<1>(check);
        for_each_rising<2>(check);
    }

private:
    // Jobs that take longer and longer, counted in this many pieces of a tile.
    template <int kPieces, class Check>
    static void for_each_rising(const Check& check) {
        for (const int64_t blocks : {1, 3, 132})
            for (const int64_t units : {1, 5, 40})
                for (const uint32_t jobs : {1u, 2u, 86u})
                    for (const int first : {-7, 0, 2, 51})
                        for (const int more : {1, 2, 3})
                            for (const int short_of : {0, 1}) { // the last job may lack rows
                                const int last = std::max(
                                    1, (first + static_cast<int>(jobs - 1) * more - short_of + kPieces - 1) / kPieces);
                                SCOPED_TRACE(std::to_string(units) + " units of " + std::to_string(jobs) + " jobs of " +
                                             std::to_string(first) + ", " + std::to_string(more) + " more each, " +
                                             std::to_string(kPieces) + " a tile, for " + std::to_string(blocks) +
                                             " blocks");
                                const JobTilesIn<kPieces> rising{Divisor(jobs), static_cast<unsigned>(last), first,
                                                                 more};
                                check(units * jobs, rising, DivisionForMost(units, rising, blocks));
                            }
    }
};

TEST_F(EachDivision, HasEveryTileOnce) {
    for_each([](int64_t jobs, const auto& tiles, const DivisionForMost& division) {
        expect_every_tile_once(division, jobs, [&](uint32_t job) { return tiles.of(job); });
    });
}

template <int kPieces>
void expect_sums_of_jobs() {
    for (const int first : {-9, -1, 0, 1, 2, 30})
        for (const int more : {0, 1, 2, 3, 5}) {
            if (more == 0 && first < 1) continue;
            const uint32_t jobs = 12;
            const int needed = more == 0 ? first : first + 11 * more - 1;
            const int last = std::max(1, (needed + kPieces - 1) / kPieces);
            const JobTilesIn<kPieces> tiles{Divisor(jobs), static_cast<unsigned>(last), first, more};
            int64_t sum = 0;
            for (uint32_t job = 0; job < jobs; ++job) {
                EXPECT_EQ(tiles.before(job), sum) << first << " " << more << " " << job << ", " << kPieces << " a tile";
                EXPECT_EQ(tiles.of(3 * jobs + job), tiles.of(job));
                sum += tiles.of(job);
            }
            EXPECT_EQ(tiles.of_unit(), sum);
        }
}

TEST(JobTiles, AddUp) {
    expect_sums_of_jobs<1>();
    expect_sums_of_jobs<2>();
}

TEST_F(EachDivision, HandsAJobOnOnceAtMostFromTheNextBlockAndInTime) {
    for_each([](int64_t, const auto&, const DivisionForMost& division) {
        expect_handover_from_next_block(division, 0, [](const Turn& head) { EXPECT_EQ(head.index, 0); });
    });
}

constexpr int kMultiprocessors = 132; // as on an H200

TEST(Divisor, DividesAsTheInstructionWould) {
    const std::vector<uint32_t> numbers = {
        1,     2,     3,     5,       7,       11,         64,         131,        132,        133,       396,
        65535, 65536, 65537, 1000003, 9999991, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
    for (const uint32_t number : numbers) {
        const Divisor by(number);
        EXPECT_EQ(by.number(), number);
        for (const uint32_t times : numbers)
            for (const uint32_t more : {0u, 1u, number / 2, number - 1}) {
                const uint32_t n = number * times + more; // modulo 2^32
                EXPECT_EQ(by.quotient(n), n / number) << n << " / " << number;
                EXPECT_EQ(by.remainder(n), n % number) << n << " % " << number;
            }
    }
}

TEST(TakesJoint, WhereSequencesAreLongAndUnitsMany) {
    EXPECT_TRUE(takes_joint(4, 16384, 16384, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(500, 2048, 2048, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(300, 1024, 1024, 3, kMultiprocessors));
    EXPECT_TRUE(takes_joint(300, 512, 512, 3, kMultiprocessors));
    EXPECT_FALSE(takes_joint(300, 511, 511, 4, kMultiprocessors));
    EXPECT_FALSE(takes_joint(300, 512, 511, 3, kMultiprocessors)); // the missing rows exceed an eighth by one row
    EXPECT_TRUE(takes_joint(12, 2048, 2048, 3, 12 * 11));          // a job per multiprocessor
    EXPECT_FALSE(takes_joint(12, 2048, 2048, 3, 12 * 11 + 1));
    EXPECT_FALSE(takes_joint(300, 640, 640, 3, kMultiprocessors)); // a sixth of the jobs' rows is missing
    EXPECT_TRUE(takes_joint(800, 1024, 1024, 4, kMultiprocessors));
    EXPECT_FALSE(takes_joint(9600, 128, 128, 3, kMultiprocessors));
    EXPECT_FALSE(takes_joint(1, 16384, 16384, 3, kMultiprocessors)); // 86 jobs
    EXPECT_FALSE(takes_joint(4, 16384, 1024, 3, kMultiprocessors));  // a part of the queries
}

TEST(TakesWhole, WhereMostGroupsHaveRowsAndKeysAreNotFew) {
    EXPECT_TRUE(takes_whole(65, 65, 64));
    EXPECT_TRUE(takes_whole(256, 256, 64));
    EXPECT_FALSE(takes_whole(4096, 64, 64));
    EXPECT_FALSE(takes_whole(64, 4096, 64));
    EXPECT_TRUE(takes_whole(129, 129, 32));
    EXPECT_FALSE(takes_whole(128, 128, 32));
    EXPECT_FALSE(takes_whole(256, 256, 32)); // two groups of six
    EXPECT_TRUE(takes_whole(257, 257, 32));
}

} // namespace
} // namespace hw4::gpu::fixed_point
