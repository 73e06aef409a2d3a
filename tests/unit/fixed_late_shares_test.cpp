// How the work of a launch is divided where some multiprocessors prepare heads first: every tile of every job once, a
// job's tiles in order and never two at a time, and all blocks end together.
#include "src/gpu/fixed/forward/beside_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace hw4::gpu::fixed_point {
namespace {

constexpr int kMultiprocessors = 132; // of an H200

// A part of a job, and when its block begins with it, in tiles.
struct Turn {
    unsigned first;
    unsigned end;
    int64_t block;
    int64_t time;
};

struct Division {
    std::map<int64_t, std::vector<Turn>> of_job;
    std::vector<int64_t> end; // of each block
};

Division divided(const LateShares& shares, const LateBlocks& late) {
    Division division;
    for (uint32_t block = 0; block < shares.blocks(); ++block) {
        const LateShare share = shares.share(block);
        int64_t time = block < shares.late() ? late.tiles : 0;
        for (uint32_t i = 0; i < share.parts; ++i) {
            const JobPart part = shares.part(share, i);
            division.of_job[part.job].push_back({part.first, part.end, block, time});
            time += part.end - part.first;
        }
        division.end.push_back(time);
    }
    for (auto& job : division.of_job)
        std::sort(job.second.begin(), job.second.end(), [](const Turn& a, const Turn& b) { return a.first < b.first; });
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
        const int64_t count = jobs.units * jobs.of_unit;
        ASSERT_EQ(division.of_job.size(), static_cast<size_t>(count));
        EXPECT_EQ(division.of_job.begin()->first, 0);
        EXPECT_EQ(division.of_job.rbegin()->first, count - 1);
        for (const auto& job : division.of_job) {
            unsigned next = 0;
            for (const Turn& turn : job.second) {
                EXPECT_EQ(turn.first, next);
                EXPECT_GT(turn.end, turn.first);
                next = turn.end;
            }
            EXPECT_EQ(next, jobs.tiles);
        }
    });
    EXPECT_GT(divisions, 100);
}

TEST(LateShares, EndTogether) {
    const int divisions = for_each_division([](const EqualJobs&, const Division& division) {
        const auto ends = std::minmax_element(division.end.begin(), division.end.end());
        EXPECT_LE(*ends.second - *ends.first, 2); // late blocks are alike, others differ by 1
    });
    EXPECT_GT(divisions, 100);
}

// The kernel relies on it: who goes on with a job looks for it at the next block.
TEST(LateShares, HandAJobOnOnceAtMostFromTheNextBlockAndInTime) {
    for_each_division([](const EqualJobs&, const Division& division) {
        for (const auto& job : division.of_job) {
            ASSERT_LE(job.second.size(), 2u);
            if (job.second.size() == 1) continue;
            const Turn& head = job.second[0];
            const Turn& rest = job.second[1];
            EXPECT_EQ(head.block, rest.block + 1);
            EXPECT_LE(head.time + (head.end - head.first), rest.time + 2);
        }
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
        int64_t last = 0;
        for (uint32_t i = 0; i < share.parts; ++i) last += shares->part(share, i).job % 6 == 5 ? 1 : 0;
        EXPECT_GE(last, share.parts / 6 - 1);
        EXPECT_LE(last, share.parts / 6 + 2);
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
