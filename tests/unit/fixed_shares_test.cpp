// Division of a kernel's work among its blocks: every tile of every job once, a job's tiles in order and never two at a
// time, and about equally many tiles per block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "src/contracts/fixed16/forward.h"
#include "src/gpu/common/shares.h"
#include "src/gpu/fixed/forward/card_plan.h"
#include "src/gpu/fixed/forward/rules.h"

namespace hw4::gpu::fixed_point {
namespace {

// ---- Simulates how blocks divide jobs, job by job and block by block.

// A part of a job, and the time at which its block begins it, in tiles.
struct Turn {
    unsigned first;
    unsigned end;
    int64_t block;
    int64_t index; // among the block's parts
    double time;
};

struct Division {
    std::map<int64_t, std::vector<Turn>> of_job; // ordered by tiles
    std::vector<double> ends;                    // for each block

    // Adds the next block, which begins at `time` and does `parts` parts; tile_time gives the time of a job's tile.
    template <class PartAt, class TileTime>
    void add_block(double time, uint32_t parts, const PartAt& part_at, const TileTime& tile_time) {
        const auto block = static_cast<int64_t>(ends.size());
        for (uint32_t i = 0; i < parts; ++i) {
            const JobPart part = part_at(i);
            std::vector<Turn>& turns = of_job[part.job];
            const auto after =
                std::find_if(turns.begin(), turns.end(), [&](const Turn& t) { return t.first > part.first; });
            turns.insert(after, {part.first, part.end, block, i, time});
            time += (part.end - part.first) * tile_time(part.job);
        }
        ends.push_back(time);
    }
    template <class PartAt>
    void add_block(double time, uint32_t parts, const PartAt& part_at) {
        add_block(time, parts, part_at, [](uint32_t) { return 1.0; });
    }

    // The time between the first and the last end of a block.
    double spread() const {
        return *std::max_element(ends.begin(), ends.end()) - *std::min_element(ends.begin(), ends.end());
    }
};

// Each of the jobs 0, 1, ... has all its tiles once, in order.
template <class TilesOf>
void expect_every_tile_once(const Division& division, int64_t jobs, const TilesOf& tiles_of) {
    ASSERT_EQ(division.of_job.size(), static_cast<size_t>(jobs));
    EXPECT_EQ(division.of_job.begin()->first, 0);
    EXPECT_EQ(division.of_job.rbegin()->first, jobs - 1);
    for (const auto& job : division.of_job) {
        unsigned next = 0;
        for (const Turn& turn : job.second) {
            EXPECT_EQ(turn.first, next);
            EXPECT_GT(turn.end, turn.first);
            next = turn.end;
        }
        EXPECT_EQ(next, tiles_of(static_cast<uint32_t>(job.first)));
    }
}

// Kernels rely on this: a block that continues a job finds its first tiles done by the next block at that time, or
// `later` tiles after it. `check` examines each such part further.
template <class Check>
void expect_handover_from_next_block(const Division& division, double later, const Check& check) {
    for (const auto& job : division.of_job) {
        ASSERT_LE(job.second.size(), 2u);
        if (job.second.size() == 1) continue;
        const Turn& head = job.second[0];
        const Turn& rest = job.second[1];
        EXPECT_EQ(head.block, rest.block + 1);
        EXPECT_LE(head.time + (head.end - head.first), rest.time + later); // a tile takes no longer than 1
        check(head);
    }
}

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

// Division of a launch's work where some multiprocessors may prepare heads first: every tile of every job once, a job's
// tiles in order and never two at a time, and all blocks end together.

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

// Under a mask, too, the blocks compute every tile of every job once. Long shares end together, though jobs take time
// besides their tiles.
TEST(MaskedShares, HaveEveryTileOnceAndEndTogether) {
    using Shares = MaskedShares<JobTilesIn<2>>;
    for (const int64_t multiprocessors : {1, 2, 7, 114, 132, 256})
        for (const int64_t units : {1, 64, 128, 133, 200, 512, 5000})
            for (const auto& tiles : {JobTilesIn<2>{Divisor(1), 1, 1, 3}, JobTilesIn<2>{Divisor(3), 4, 2, 3},
                                      JobTilesIn<2>{Divisor(6), 8, 1, 3}, JobTilesIn<2>{Divisor(171), 256, 2, 3}}) {
                const int64_t jobs = units * tiles.jobs.number();
                SCOPED_TRACE(std::to_string(multiprocessors) + ": " + std::to_string(jobs) + " jobs of up to " +
                             std::to_string(tiles.last) + " tiles");
                const auto shares = Shares::of(units, tiles, multiprocessors);
                ASSERT_EQ(shares.has_value(), jobs > multiprocessors);
                if (!shares) continue;
                Division division;
                for (uint32_t block = 0; block < shares->blocks(); ++block) {
                    const Share share = shares->share(block);
                    ASSERT_GT(share.parts, 0u);
                    division.add_block(0, share.parts, [&](uint32_t i) { return shares->part(share, i); });
                    division.ends.back() += share.parts * Shares::kBetweenJobs;
                }
                expect_every_tile_once(division, jobs, [&](uint32_t job) { return tiles.of(job); });
                expect_handover_from_next_block(division, Shares::kBetweenJobs + 1,
                                                [](const Turn& head) { EXPECT_EQ(head.index, 0u); });
                if (division.ends.front() > 1.5 * Shares::kLongShare) {
                    EXPECT_LE(division.spread(), 2 * Shares::least_cut(true));
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

// What the pre-pass of fixed records about a head's tiles, and when kernels may rely on it. The facts are combined as
// the kernels do: by maxima, starting at 0.

ExponentRange range_of(std::initializer_list<int> exponents) {
    ExponentRange range{0, 0};
    for (const int exponent : exponents) {
        const ExponentRange of = ExponentRange::of(exponent);
        range.above = std::max(range.above, of.above);
        range.below = std::max(range.below, of.below);
    }
    return range;
}

TEST(ExponentRange, HoldsTheLargestAndTheSmallest) {
    for (int a = ExponentRange::kLeast; a <= ExponentRange::kMost; ++a)
        for (int b = a; b <= ExponentRange::kMost; ++b) {
            const ExponentRange range = range_of({a, b, a});
            ASSERT_EQ(range.smallest(), a);
            ASSERT_EQ(range.largest(), b);
            ASSERT_EQ(range.is_one(), a == b);
        }
}

TEST(ExponentRange, OfNoTileIsNotOne) { EXPECT_FALSE((ExponentRange{0, 0}.is_one())); }

TEST(ExponentRange, IsThatOfAllFloats) {
    EXPECT_EQ(fixed16::Numbers::exponent_for(std::numeric_limits<float>::max()), ExponentRange::kLeast);
    EXPECT_EQ(fixed::exponent_for(0.0f), ExponentRange::kMost);
    EXPECT_EQ(fixed::exponent_for(std::numeric_limits<float>::denorm_min()), ExponentRange::kMost);
    EXPECT_GT(fixed::exponent_for(std::numeric_limits<float>::max()), ExponentRange::kLeast);
    EXPECT_LT(fixed16::Numbers::exponent_for(0.0f), ExponentRange::kMost);
}

TEST(IsSteady, WhereNothingChangesFromTileToTile) {
    const auto facts = [](const ExponentRange& k, const ExponentRange& v) { return HeadFacts{k, v, 1.0f}; };
    EXPECT_TRUE(is_steady(facts(range_of({21, 21}), range_of({20, 20, 20})), 22));
    EXPECT_FALSE(is_steady(facts(range_of({21, 20}), range_of({20})), 22));
    EXPECT_FALSE(is_steady(facts(range_of({21}), range_of({20, -40})), 22));
    EXPECT_FALSE(is_steady(facts({0, 0}, {0, 0}), 22)); // unknown
}

// unit_of() cuts finer scores in the same way.
TEST(IsSteady, WhereNoScoreIsTooFine) {
    const HeadFacts facts{range_of({21}), range_of({20}), 1.0f};
    for (int row = ExponentRange::kLeast; row <= ExponentRange::kMost; ++row)
        EXPECT_EQ(is_steady(facts, row), fixed::unit_of(row, 21).cut == 0) << row;
}

} // namespace
} // namespace hw4::gpu::fixed_point
