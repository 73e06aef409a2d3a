// How a launch of fixed or fixed16 is divided among the card's multiprocessors: jobs of query rows, the pre-pass that
// prepares K and V, and shares of both. No CUDA here, so that it can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "src/base/inline.h"
#include "src/gpu/common/divisor.h"
#include "src/gpu/common/shares.h"

namespace hw4::gpu::fixed_point {

// ---- The division of work of src/gpu/common/shares.h among blocks of which some may begin late, when the others have
// done so many tiles. Jobs are all of as many tiles, and all tiles take as long, but for those of a unit's last job,
// which may be done faster.
//
// The late blocks are the first ones, and have less by what they missed. Most jobs go to the blocks in turn: in the
// first rounds without the late ones, then with all. The others, at least one for each block, and more the faster the
// last of a unit are, follow one another in a line that is cut into a stretch for each block, which it does when it has
// done its rounds, so that all end together. Where a cut goes through a job, the block after it does the job's first
// tiles, as the first of its stretch, and the block before it the others, as the last of all: when it comes to them,
// the first ones are done, if all are as fast.

// What is divided: jobs of as many tiles each, for so many blocks.
struct EqualJobs {
    int64_t units;
    uint32_t of_unit;
    unsigned tiles;
    int64_t blocks;
    double last = 1; // of a unit's jobs: the part of another's time that it takes

    int64_t count() const { return units * of_unit; }
    double time_of_unit() const { return (of_unit - 1 + last) * tiles; } // in tiles of the others
};

struct LateBlocks {
    int64_t blocks;
    int64_t tiles; // that the others do before those begin
};

// Jobs that go to some blocks in turn, in rounds of as many.
struct Rounds {
    Divisor blocks;
    uint32_t count;
    uint32_t shift; // from round to round: a block has the job that is so many after its place in the round before

    // The last job of a unit may be less work than the others. Where the jobs of a unit, and how far a block's jobs lie
    // apart, have no common divisor, every block has as many of those, or nearly, and blocks stay together.
    static Rounds of(int64_t blocks, int64_t count, uint32_t of_unit) {
        int64_t shift = 0;
        while (std::gcd(blocks + shift, int64_t{of_unit}) != 1) ++shift;
        return {Divisor(static_cast<uint32_t>(blocks)), static_cast<uint32_t>(count), static_cast<uint32_t>(shift)};
    }

    HW4_INLINE uint32_t jobs() const { return count * blocks.number(); }

    HW4_INLINE uint32_t job(uint32_t round, uint32_t block) const {
        return round * blocks.number() + blocks.remainder(block + round * shift);
    }

    // How many of a block's jobs are the last of their units, where so many jobs come before all rounds.
    uint32_t last_of_units(uint32_t block, uint32_t before, uint32_t of_unit) const {
        uint32_t place = blocks.remainder(block);      // in the round
        uint32_t in_unit = (before + place) % of_unit; // of the job there
        const uint32_t step = (blocks.number() + shift) % of_unit;
        const uint32_t back = blocks.number() % of_unit; // less, where the place goes round
        uint32_t last = 0;
        for (uint32_t round = 0; round < count; ++round) {
            last += in_unit + 1 == of_unit ? 1 : 0;
            in_unit += step;
            for (place += shift; place >= blocks.number(); place -= blocks.number()) in_unit += of_unit - back;
            in_unit %= of_unit;
        }
        return last;
    }
};

// What one block does.
struct LateShare {
    uint32_t block;
    uint32_t first_round;
    uint32_t parts;     // all together
    uint32_t first_job; // of its stretch, among all jobs
    unsigned cut;       // tiles of that one that are another block's
    unsigned after;     // tiles of the last one that are the next block's
};

struct LateShares {
    static constexpr int64_t kMostBlocks = 256;

    Divisor of_unit; // jobs
    unsigned tiles;  // of a job
    Rounds early;    // without the late blocks
    Rounds all;
    uint32_t begin[kMostBlocks + 1]; // of each block's stretch, in tiles of the line, and the line's end

    // None where there is not a job's time for every block, or for every late one after it has begun; where more than
    // half of the blocks are late; where there are more of them than any card has multiprocessors; where the line has
    // too many tiles to count. Takes the host some nanoseconds for each job.
    static std::optional<LateShares> of(const EqualJobs& jobs, const LateBlocks& late) {
        const int64_t early = jobs.blocks - late.blocks;
        if (jobs.count() <= jobs.blocks || jobs.blocks > kMostBlocks || late.blocks > early) return std::nullopt;
        const double sum = static_cast<double>(jobs.units) * jobs.time_of_unit();
        const double of_late = (sum - static_cast<double>(early * late.tiles)) / static_cast<double>(jobs.blocks);
        if (of_late < jobs.tiles) return std::nullopt;
        LateShares shares{Divisor(jobs.of_unit),
                          jobs.tiles,
                          Rounds::of(early, late.tiles / jobs.tiles, jobs.of_unit),
                          Rounds::of(jobs.blocks, static_cast<int64_t>(of_late) / jobs.tiles - 1, jobs.of_unit),
                          {}};
        if ((jobs.count() - shares.before_line()) * jobs.tiles > UINT32_MAX) return std::nullopt;
        shares.cut_line(jobs, late, of_late + static_cast<double>(late.tiles));
        return shares;
    }

    HW4_INLINE uint32_t blocks() const { return all.blocks.number(); }
    HW4_INLINE uint32_t late() const { return blocks() - early.blocks.number(); }

    HW4_INLINE LateShare share(uint32_t block) const {
        const uint32_t last = begin[block + 1] - 1; // at least a job's length further on
        const uint32_t first_job = begin[block] / tiles;
        const uint32_t first_round = block < late() ? early.count : 0;
        return {block,
                first_round,
                rounds() - first_round + last / tiles + 1 - first_job,
                before_line() + first_job,
                begin[block] % tiles,
                tiles - 1 - last % tiles};
    }

    // What a block does, one after the other.
    HW4_INLINE JobPart part(const LateShare& share, uint32_t i) const {
        const uint32_t of_rounds = rounds() - share.first_round;
        const bool in_round = i < of_rounds;
        const bool begins = i == of_rounds;
        const uint32_t job =
            in_round ? job_of_round(share.first_round + i, share.block) : share.first_job + i - of_rounds;
        return {job, i + 1 == share.parts && !begins ? share.after : 0, tiles - (begins ? share.cut : 0)};
    }

private:
    HW4_INLINE uint32_t rounds() const { return early.count + all.count; }

    HW4_INLINE uint32_t job_of_round(uint32_t round, uint32_t block) const {
        if (round < early.count) return early.job(round, block);
        return early.jobs() + all.job(round - early.count, block);
    }

    HW4_INLINE uint32_t before_line() const { return early.jobs() + all.jobs(); }

    bool is_last_of_unit(uint32_t job) const { return of_unit.remainder(job) + 1 == of_unit.number(); }

    // For blocks that all end at that time. Stretches are as long as a job at least, so that none is cut twice.
    void cut_line(const EqualJobs& jobs, const LateBlocks& late, double time) {
        const auto time_of = [&](uint32_t job) { return (is_last_of_unit(job) ? jobs.last : 1) * tiles; };
        uint32_t job = before_line(); // that the next cut goes through, or one before it
        double of_line = 0;           // time, up to that job
        double cut = 0;               // likewise
        for (uint32_t block = 0; block < blocks(); ++block) {
            const bool is_late = block < late.blocks;
            cut += time - (is_late ? static_cast<double>(late.tiles) : 0) - time_of_rounds(block, jobs);
            for (; job < jobs.count() && of_line + time_of(job) <= cut; ++job) of_line += time_of(job);
            const double in_job = job < jobs.count() ? (cut - of_line) / time_of(job) : 0;
            const uint32_t at = (job - before_line()) * tiles + static_cast<uint32_t>(in_job * tiles + 0.5);
            begin[block + 1] = std::max(at, begin[block] + tiles);
        }
        begin[blocks()] = static_cast<uint32_t>(jobs.count() - before_line()) * tiles;
        for (uint32_t block = blocks(); block > 1; --block)
            begin[block - 1] = std::min(begin[block - 1], begin[block] - tiles);
    }

    double time_of_rounds(uint32_t block, const EqualJobs& jobs) const {
        const bool is_late = block < late();
        uint32_t last_jobs = 0;
        if (jobs.last != 1) {
            last_jobs = all.last_of_units(block, early.jobs(), jobs.of_unit);
            if (!is_late) last_jobs += early.last_of_units(block, 0, jobs.of_unit);
        }
        return (all.count + (is_late ? 0 : early.count) - last_jobs * (1 - jobs.last)) * tiles;
    }
};

// ---- How many jobs (shares.h) a launch has, and whether groups of rows share a block

constexpr int kGroupRows = 64; // query rows of a group

// Jobs of a unit: each as many rows as a block's groups take; the last may have fewer.
HW4_INLINE int64_t jobs_for(int64_t queries, int groups) {
    return (queries + groups * kGroupRows - 1) / (groups * kGroupRows);
}

// Groups that a unit's jobs have room for and its rows do not fill: of the last job or, under a mask, of the first,
// which has the fewest tiles.
HW4_INLINE int64_t missing_groups(int64_t queries, int groups) {
    return jobs_for(queries, groups) * groups - jobs_for(queries, 1);
}

// Groups of a block share its tiles, and so wait for the slowest of them; and the last job of a unit may leave some
// of them without rows. That pays where sequences are long, where few rows are missing, and where there is a job for
// every multiprocessor. What it brought against groups apart when it was chosen: at d = 64, N = 256, which lacks a
// third, -5 %; N = 512 and 1024, which lack a ninth of theirs, +7 and +6 %; at d = 32, N = 512, which lacks none, +12
// %.
inline bool takes_joint(int64_t units, int64_t keys, int64_t queries, int groups, int multiprocessors) {
    constexpr int64_t kLongSequence = 512;
    const int64_t jobs = jobs_for(queries, groups);
    const int64_t missing = jobs * groups * kGroupRows - queries;
    return keys >= kLongSequence && missing <= queries / 8 && units * jobs >= multiprocessors;
}

// Whether wgmma_whole.cuh is better for such heads than groups apart: its jobs have three groups, and not too many of
// them may be without rows, at d = 32 less than a third, at 64 a third too. What it took of the time of groups apart
// when it was chosen, for many heads, at 64: N = 64 1.29, 100 and 128 0.94, 130 0.83, 192 0.84, 256 0.97, 384 0.81, 512
// 0.83, 1000 0.87, 1800 0.87; at 32: N = 64 1.44, 128 1.02, 160 0.84, 256 1.08, 320 0.93, 512 0.93, 1000 0.92.
inline bool takes_whole(int64_t keys, int64_t queries, int64_t dim) {
    constexpr int kGroups = 3;
    constexpr int64_t kFewKeys = 64; // up to which it was not tried
    const int64_t lacking = kGroups * missing_groups(queries, kGroups);
    const int64_t places = kGroups * jobs_for(queries, kGroups);
    return keys > kFewKeys && (dim == 64 ? lacking <= places : lacking < places);
}

// ---- When K and V are prepared: all heads before the products, or most of them beside.
//
// Beside: the whole card prepares the heads that are needed first, then some multiprocessors prepare the others, in the
// order in which they are needed, while the rest begin with the products; those with nothing left to prepare join them.
// The whole card at once waits for memory while it prepares, some multiprocessors hardly do, so that less is taken from
// the products. A head's products begin when it is ready, and bytes are the same.

// At d = 64 with two digits. It was tried at d = 32 and 128 and with three digits too, where it does not pay.
template <class Rules, int kDim>
constexpr bool kMayPrepareBeside = Rules::kDigits == 2 && kDim == 64;

// Heads that are prepared while others are looked at.
struct PrepassWork {
    double jobs;   // for each head (shares.h); one that takes half of the others' time is half a job
    int64_t tiles; // of a head, and of a job, which looks at all of them
};

// In the time that a job takes for a tile: how long one multiprocessor takes to prepare a tile of a head, of whichever
// elements. Measured.
inline double preparing_time(const PrepassWork& work) {
    constexpr double kPrepare = 0.78;
    constexpr double kBetweenJobs = 1.6; // what a job begins and ends with
    return kPrepare / (1 + kBetweenJobs / static_cast<double>(work.tiles));
}

// How many of the multiprocessors prepare heads while the others compute.
inline int64_t preparers_for(const PrepassWork& work, int64_t multiprocessors) {
    constexpr double kLead = 1.6; // so many times as fast as heads are needed: when the first ones are, few are ready
    const double for_each_other = kLead * preparing_time(work) / work.jobs;
    return static_cast<int64_t>(for_each_other / (1 + for_each_other) * static_cast<double>(multiprocessors)) + 1;
}

// ---- The work of a launch without a mask, that of the pre-pass too, where some of it is done beside the products

// On so many multiprocessors, each with a block of so many groups.
struct CardLaunch {
    int64_t units;
    int64_t heads; // of K and V, each of as many units
    int64_t queries;
    int64_t tiles; // of a head
    int groups;
    int64_t multiprocessors;

    EqualJobs jobs() const {
        const int64_t of_unit = jobs_for(queries, groups);
        const double last = of_unit == 1 ? 1 : time_with(groups - missing_groups(queries, groups)); // of one, all are
        return {units, static_cast<uint32_t>(of_unit), static_cast<unsigned>(tiles), multiprocessors, last};
    }

private:
    // The time of a job of some of the groups, as part of that of all: groups fill each other's waiting. Measured with
    // three groups.
    double time_with(int64_t some) const {
        return 1 - 0.7 * static_cast<double>(groups - some) / static_cast<double>(groups);
    }
};

struct CardPlan {
    LateShares shares;
    int64_t heads_before; // by the whole card: the first ones
    int64_t preparers;    // multiprocessors that prepare the others beside the products; 0: there are none

    // None where multiprocessors do not have a job's time each.
    static std::optional<CardPlan> before(const CardLaunch& launch) {
        const auto shares = LateShares::of(launch.jobs(), {0, 0});
        if (!shares) return std::nullopt;
        return CardPlan{*shares, launch.heads, 0};
    }

    // None where heads are few, or have a single tile, of which it was not tried.
    static std::optional<CardPlan> beside(const CardLaunch& launch) {
        if (launch.tiles < 2) return std::nullopt;
        const EqualJobs jobs = launch.jobs();
        const int64_t units_of_head = launch.units / launch.heads;
        const PrepassWork work{static_cast<double>(units_of_head) * jobs.time_of_unit() / jobs.tiles, launch.tiles};
        const int64_t preparers = preparers_for(work, launch.multiprocessors);
        // Those of the first two rounds, since a block looks ahead by one.
        const int64_t last_unit = (2 * (launch.multiprocessors - preparers) - 1) / jobs.of_unit;
        const int64_t heads_before = last_unit / units_of_head + 1;
        if (heads_before > launch.heads / 4) return std::nullopt;
        const auto tiles_beside = static_cast<double>((launch.heads - heads_before) * launch.tiles);
        const double meanwhile = preparing_time(work) * tiles_beside / static_cast<double>(preparers);
        const auto shares = LateShares::of(jobs, {preparers, static_cast<int64_t>(meanwhile)});
        if (!shares) return std::nullopt;
        return CardPlan{*shares, heads_before, preparers};
    }
};

} // namespace hw4::gpu::fixed_point
