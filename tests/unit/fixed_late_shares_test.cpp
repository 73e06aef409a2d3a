// How the work of a launch is divided where some multiprocessors prepare heads first: every tile of every job once, a
// job's tiles in order and never two at a time, and all blocks end together.
#include "src/gpu/fixed/forward/beside_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/division.h"

namespace hw4::gpu::fixed_point {
namespace {

constexpr int kMultiprocessors = 132; // of an H200

Division divided(const LateShares& shares, const LateBlocks& late) {
    Division division;
    for (uint32_t block = 0; block < shares.blocks(); ++block) {
        const LateShare share = shares.share(block);
        division.add_block(block < shares.late() ? late.tiles : 0, share.parts,
                           [&](uint32_t i) { return shares.part(share, i); });
    }
    return division;
}

// Checks each division that there is; tells how many.
template <class Check>
int for_each_division(const Check& check) {
    int count = 0;
    for (const int64_t blocks : {2, 7, 132})
        for (const int64_t units : {2 * blocks, 5 * blocks + 2, 23 * blocks + 36})
            for (const uint32_t of_unit : {1u, 6u})
                for (const unsigned tiles : {1u, 8u, 17u})
                    for (const int64_t late : {int64_t{1}, blocks / 3, blocks / 2, blocks - 1})
                        for (const int64_t meanwhile : {1u, tiles, 3 * tiles + 1, 11 * tiles + tiles / 2}) {
                            SCOPED_TRACE(std::to_string(units) + " units of " + std::to_string(of_unit) + " jobs of " +
                                         std::to_string(tiles) + " tiles for " + std::to_string(blocks) + " blocks, " +
                                         std::to_string(late) + " late by " + std::to_string(meanwhile));
                            const EqualJobs jobs{units, of_unit, tiles, blocks};
                            const auto shares = LateShares::of(jobs, {late, meanwhile});
                            if (!shares) continue;
                            EXPECT_EQ(shares->blocks(), blocks);
                            EXPECT_EQ(shares->late(), late);
                            check(jobs, divided(*shares, {late, meanwhile}));
                            ++count;
                        }
    return count;
}

TEST(LateShares, HaveEveryTileOnce) {
    const int divisions = for_each_division([](const EqualJobs& jobs, const Division& division) {
        expect_every_tile_once(division, jobs.units * jobs.of_unit, [&](uint32_t) { return jobs.tiles; });
    });
    EXPECT_GT(divisions, 100);
}

TEST(LateShares, EndTogether) {
    for_each_division([](const EqualJobs&, const Division& division) {
        EXPECT_LE(division.spread(), 2); // late blocks are alike, others differ by 1
    });
}

TEST(LateShares, HandAJobOnOnceAtMostFromTheNextBlockAndInTime) {
    for_each_division([](const EqualJobs&, const Division& division) {
        expect_handed_on_from_next_block(division, 2, [](const Turn&) {});
    });
}

// Heads are prepared from the first one on.
TEST(LateShares, BeginWithTheFirstJobs) {
    const LateBlocks late{20, 112};
    const auto shares = LateShares::of({512, 6, 8, kMultiprocessors}, late);
    ASSERT_TRUE(shares);
    const auto first_job = [&](uint32_t block, uint32_t i) { return shares->part(shares->share(block), i).job; };
    for (uint32_t block = 20; block < kMultiprocessors; ++block) {
        EXPECT_LT(first_job(block, 0), 112u);
        EXPECT_LT(first_job(block, 1), 224u);
    }
    for (uint32_t block = 0; block < 20; ++block) EXPECT_EQ(first_job(block, 0) / (14 * 112), 1u); // after 14 rounds
}

// So that the last job of a head, which may lack rows, is not always the same block's.
TEST(LateShares, GiveEveryBlockSomeOfTheLastJobsOfHeads) {
    const auto shares = LateShares::of({500, 6, 16, kMultiprocessors}, {12, 200}); // 6 divides 120 and 132
    ASSERT_TRUE(shares);
    for (uint32_t block = 0; block < kMultiprocessors; ++block) {
        const LateShare share = shares->share(block);
        expect_some_last_jobs(share.parts, 6, [&](uint32_t i) { return shares->part(share, i); });
    }
}

TEST(LateShares, AreNoneWhereNothingIsLeftForLateBlocksOrMostAreLate) {
    const EqualJobs jobs{512, 6, 8, kMultiprocessors};
    EXPECT_TRUE(LateShares::of(jobs, {20, 112}));
    EXPECT_FALSE(LateShares::of(jobs, {20, 10000}));
    EXPECT_TRUE(LateShares::of(jobs, {66, 1}));
    EXPECT_FALSE(LateShares::of(jobs, {67, 1}));
}

std::optional<Preparers> preparers_of(int64_t heads, int64_t units, int64_t rows, int64_t keys) {
    const int64_t tiles = (keys + 127) / 128;
    return preparers_for({heads * tiles, units * jobs_for(rows, 3) * tiles, kMultiprocessors});
}

TEST(Preparers, AreMoreTheLessOftenAHeadIsUsedAndNoneForLongRows) {
    const auto of = [](int64_t batches, int64_t rows) { return preparers_of(batches, batches, rows, rows); };
    ASSERT_TRUE(of(512, 1024));
    EXPECT_EQ(of(512, 1024)->multiprocessors, 20);
    EXPECT_EQ(of(512, 1024)->job_tiles, 112);
    ASSERT_TRUE(of(1024, 512));
    EXPECT_GT(of(1024, 512)->multiprocessors, 20);
    EXPECT_LT(of(1024, 512)->multiprocessors, kMultiprocessors / 2);
    EXPECT_FALSE(of(500, 2048));
    EXPECT_FALSE(of(4, 16384));
    EXPECT_FALSE(preparers_of(64, 64 * 8, 1024, 1024)); // eight heads of queries for each
}

// Rows of as many keys, in tiles of 128.
std::optional<BesidePlan> plan_of(int64_t heads, int64_t rows, int64_t multiprocessors = kMultiprocessors) {
    return BesidePlan::of({heads, heads, rows, (rows + 127) / 128, 3, multiprocessors});
}

TEST(BesidePlan, IsForManyHeadsOfUpToEightJobs) {
    EXPECT_TRUE(plan_of(512, 1024));
    EXPECT_TRUE(plan_of(512, 1536));
    EXPECT_FALSE(plan_of(512, 1537));
    EXPECT_FALSE(plan_of(100, 1024)); // too many of them would be prepared before
    EXPECT_FALSE(plan_of(512, 1024, 1));
}

TEST(BesidePlan, PreparesTheHeadsOfTwoRoundsBefore) {
    const auto plan = plan_of(512, 1024);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->preparers, 20);
    EXPECT_EQ(plan->shares.late(), 20u);
    EXPECT_EQ(plan->heads_before, 38u); // 224 jobs, 6 a head
    const auto sharing = BesidePlan::of({1024, 512, 520, 5, 3, kMultiprocessors});
    ASSERT_TRUE(sharing);
    const int64_t jobs = 2 * sharing->shares.early.blocks.number();
    EXPECT_EQ(sharing->heads_before, (jobs - 1) / 6 + 1);
}

} // namespace
} // namespace hw4::gpu::fixed_point
