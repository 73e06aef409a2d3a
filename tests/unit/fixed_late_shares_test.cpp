// Division of a launch's work where some multiprocessors may prepare heads first: every tile of every job once, a job's
// tiles in order and never two at a time, and all blocks end together.
#include "src/gpu/fixed/forward/card_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/division.h"

namespace hw4::gpu::fixed_point {
namespace {

constexpr int kMultiprocessors = 132; // as on an H200

Division divided(const LateShares& shares, const EqualJobs& jobs, const LateBlocks& late) {
    Division division;
    for (uint32_t block = 0; block < shares.blocks(); ++block) {
        const LateShare share = shares.share(block);
        division.add_block(
            block < shares.late() ? static_cast<double>(late.tiles) : 0, share.parts,
            [&](uint32_t i) { return shares.part(share, i); },
            [&](uint32_t job) { return job % jobs.of_unit + 1 == jobs.of_unit ? jobs.last : 1; });
    }
    return division;
}

// Checks every possible division; returns their number.
template <class Check>
int for_each_division(const Check& check) {
    int count = 0;
    for (const int64_t blocks : {2, 7, 132})
        for (const int64_t units : {2 * blocks, 5 * blocks + 2, 23 * blocks + 36})
            for (const uint32_t of_unit : {1u, 6u})
                for (const unsigned tiles : {1u, 8u, 17u})
                    for (const int64_t late : {int64_t{0}, int64_t{1}, blocks / 3, blocks / 2, blocks - 1})
                        for (const int64_t meanwhile : {0u, 1u, tiles, 3 * tiles + 1, 11 * tiles + tiles / 2}) {
                            if (late == 0 && meanwhile > 0) continue;
                            SCOPED_TRACE(std::to_string(units) + " units of " + std::to_string(of_unit) + " jobs of " +
                                         std::to_string(tiles) + " tiles for " + std::to_string(blocks) + " blocks, " +
                                         std::to_string(late) + " late by " + std::to_string(meanwhile));
                            for (const double last : {1.0, 0.5}) {
                                const EqualJobs jobs{units, of_unit, tiles, blocks, last};
                                const auto shares = LateShares::of(jobs, {late, meanwhile});
                                if (!shares) continue;
                                EXPECT_EQ(shares->blocks(), blocks);
                                EXPECT_EQ(shares->late(), late);
                                check(jobs, divided(*shares, jobs, {late, meanwhile}));
                                ++count;
                            }
                        }
    return count;
}

TEST(LateShares, HaveEveryTileOnce) {
    const int divisions = for_each_division([](const EqualJobs& jobs, const Division& division) {
        expect_every_tile_once(division, jobs.count(), [&](uint32_t) { return jobs.tiles; });
    });
    EXPECT_GT(divisions, 200);
}

// Each block ends up to a tile early or late.
TEST(LateShares, EndTogether) {
    for_each_division([](const EqualJobs& jobs, const Division& division) {
        EXPECT_LE(division.spread(), 2) << "last jobs take " << jobs.last;
    });
}

TEST(LateShares, HandAJobOnOnceAtMostFromTheNextBlockAndInTime) {
    for_each_division([](const EqualJobs&, const Division& division) {
        expect_handover_from_next_block(division, 2, [](const Turn&) {});
    });
}

TEST(MaskedShares, AreThoseOfTheLine) {
    for (const int64_t units : {66, 132, 512})
        for (const auto& tiles : {JobTilesIn<2>{Divisor(1), 1, 1, 3}, JobTilesIn<2>{Divisor(6), 8, 1, 3}}) {
            const auto line = SharesOf<JobTilesIn<2>>::of(units, tiles, kMultiprocessors);
            const auto shares = MaskedShares<JobTilesIn<2>>::of(units, tiles, kMultiprocessors);
            ASSERT_EQ(shares.has_value(), line.are_cut());
            for (uint32_t block = 0; shares && block < shares->blocks(); ++block) {
                const Share share = shares->share(block);
                const Share expected = line.share(block);
                EXPECT_EQ(share.parts, expected.parts);
                EXPECT_EQ(share.first_job, expected.first_job);
                EXPECT_EQ(share.cut, expected.cut);
                EXPECT_EQ(share.after, expected.after);
            }
        }
}

// Blocks stay in step: each block gets the last job of a unit, which may take less time, equally often, whatever common
// divisors the numbers of blocks and of a unit's jobs have.
TEST(Rounds, GiveEveryBlockSomeOfTheLastJobsOfUnits) {
    for (int64_t blocks = 90; blocks <= kMultiprocessors; ++blocks)
        for (const uint32_t of_unit : {1u, 2u, 3u, 6u, 7u, 11u}) {
            const Rounds rounds = Rounds::of(blocks, 3 * of_unit, of_unit);
            for (uint32_t block = 0; block < blocks; ++block) {
                uint32_t last = 0;
                for (uint32_t round = 0; round < rounds.count; ++round)
                    last += rounds.job(round, block) % of_unit == of_unit - 1 ? 1 : 0;
                ASSERT_EQ(last, rounds.last_of_units(block, 0, of_unit));
                ASSERT_GE(last, 2u) << "block " << block << " of " << blocks << ", " << of_unit << " jobs of a unit";
                ASSERT_LE(last, 4u) << "block " << block << " of " << blocks << ", " << of_unit << " jobs of a unit";
            }
        }
}

TEST(LateShares, AreNoneWhereNothingIsLeftForLateBlocksOrMostAreLate) {
    const EqualJobs jobs{512, 6, 8, kMultiprocessors};
    EXPECT_TRUE(LateShares::of(jobs, {20, 112}));
    EXPECT_FALSE(LateShares::of(jobs, {20, 10000}));
    EXPECT_TRUE(LateShares::of(jobs, {66, 1}));
    EXPECT_FALSE(LateShares::of(jobs, {67, 1}));
    EXPECT_TRUE(LateShares::of({200000, 6, 8, kMultiprocessors, 0.5}, {20, 112}));
    EXPECT_FALSE(LateShares::of({200000, 6, 80000, kMultiprocessors, 0.5}, {20, 112})); // too many tiles to count
}

// Rows and as many keys, in tiles of 128.
CardLaunch launch_of(int64_t heads, int64_t rows, int64_t multiprocessors = kMultiprocessors) {
    return {heads, heads, rows, (rows + 127) / 128, 3, multiprocessors};
}

TEST(CardPlan, PreparesBesideWhereHeadsAreMany) {
    const auto beside = [](auto... numbers) { return CardPlan::beside(launch_of(numbers...)).has_value(); };
    EXPECT_TRUE(beside(512, 1024));
    EXPECT_TRUE(beside(500, 2048));
    EXPECT_FALSE(beside(100, 1024)); // too many would be prepared before
    EXPECT_FALSE(beside(4, 16384));
    EXPECT_TRUE(beside(3000, 129));
    EXPECT_FALSE(beside(6000, 128)); // one tile each
    EXPECT_FALSE(beside(512, 1024, 1));
}

TEST(CardPlan, PreparesTheHeadsOfTwoRoundsBefore) {
    const auto plan = CardPlan::beside(launch_of(512, 1024));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->preparers, 21);
    EXPECT_EQ(plan->shares.late(), 21u);
    EXPECT_EQ(plan->heads_before, 37);        // 222 jobs, 6 per head
    EXPECT_EQ(plan->shares.early.count, 14u); // while the others are prepared
    const auto sharing = CardPlan::beside({1024, 512, 520, 5, 3, kMultiprocessors});
    ASSERT_TRUE(sharing);
    const int64_t jobs = 2 * sharing->shares.early.blocks.number();
    EXPECT_EQ(sharing->heads_before, (jobs - 1) / 6 + 1);
}

TEST(CardPlan, PreparesAllBeforeWhereThereIsAJobsTimeForEveryMultiprocessor) {
    const auto plan = CardPlan::before(launch_of(48, 512)); // three jobs each, one of which has two groups of three
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->preparers, 0);
    EXPECT_EQ(plan->heads_before, 48);
    EXPECT_EQ(plan->shares.late(), 0u);
    EXPECT_EQ(plan->shares.blocks(), static_cast<uint32_t>(kMultiprocessors));
    EXPECT_FALSE(CardPlan::before(launch_of(47, 512)));
    EXPECT_TRUE(CardPlan::before(launch_of(480, 512, 256)));
    EXPECT_FALSE(CardPlan::before(launch_of(480, 512, 257))); // more than any GPU has
    EXPECT_TRUE(CardPlan::before(launch_of(133, 128)));       // all jobs alike
    EXPECT_FALSE(CardPlan::before(launch_of(132, 128)));
}

} // namespace
} // namespace hw4::gpu::fixed_point
