// How a launch of fixed or fixed16 is divided among the GPU's multiprocessors: jobs of query rows, the pre-pass that
// prepares K and V, and the shares of both. No CUDA here, so that it can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "src/base/inline.h"
#include "src/gpu/common/divisor.h"
#include "src/gpu/common/shares.h"

namespace hw4::gpu::fixed_point {

// ---- The division of work of src/gpu/common/shares.h among blocks when some start late, after the others have
// computed a number of tiles. All jobs have the same number of tiles, and all tiles take the same time, except those of
// a unit's last job, which may be faster.
//
// The late blocks are the first ones, and have less work by the tiles that they missed. Most jobs go to the blocks in
// turn: in the first rounds without the late blocks, then with all. The other jobs, at least one for each block, and
// more the faster the last job of a unit is, form a line that is cut into a stretch for each block. A block computes
// its stretch after its rounds, so that all end together. If a cut goes through a job, the block after it computes the
// job's first tiles at the start of its stretch, and the block before it the other tiles as its last work: by then the
// first tiles are done, if all blocks are equally fast.

// The jobs to divide, all with the same number of tiles, and the number of blocks.
struct EqualJobs {
    int64_t units;
    uint32_t of_unit;
    unsigned tiles;
    int64_t blocks;
    double last = 1; // time of a unit's last job, relative to another's

    int64_t count() const { return units * of_unit; }
    double time_of_unit() const { return (of_unit - 1 + last) * tiles; } // in tiles of the other jobs
};

struct LateBlocks {
    int64_t blocks;
    int64_t tiles; // computed by the other blocks before these start
};

// Jobs that go to some blocks in turn, in rounds of one job for each block.
struct Rounds {
    Divisor blocks;
    uint32_t count;
    uint32_t shift; // from round to round: a block takes the job this far after its place in the round before

    // The last job of a unit may be less work than the others. If the number of a unit's jobs, and the distance of a
    // block's jobs, have no common divisor, every block has about as many last jobs, and blocks stay together.
    static Rounds of(int64_t blocks, int64_t count, uint32_t of_unit) {
        int64_t shift = 0;
        while (std::gcd(blocks + shift, int64_t{of_unit}) != 1) ++shift;
        return {Divisor(static_cast<uint32_t>(blocks)), static_cast<uint32_t>(count), static_cast<uint32_t>(shift)};
    }

    HW4_INLINE uint32_t jobs() const { return count * blocks.number(); }

    HW4_INLINE uint32_t job(uint32_t round, uint32_t block) const {
        return round * blocks.number() + blocks.remainder(block + round * shift);
    }

    // The number of a block's jobs that are the last of their units, if `before` jobs come before all rounds.
    uint32_t last_of_units(uint32_t block, uint32_t before, uint32_t of_unit) const {
        uint32_t place = blocks.remainder(block);      // in the round
        uint32_t in_unit = (before + place) % of_unit; // of the job at that place, in its unit
        const uint32_t step = (blocks.number() + shift) % of_unit;
        const uint32_t back = blocks.number() % of_unit; // less, where the place wraps around
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

// The work of one block.
struct LateShare {
    uint32_t block;
    uint32_t first_round;
    uint32_t parts;     // total number of parts
    uint32_t first_job; // the first job of its stretch, among all jobs
    unsigned cut;       // tiles of that job that belong to another block
    unsigned after;     // tiles of its last job that belong to the next block
};

struct LateShares {
    static constexpr int64_t kMostBlocks = 256;

    Divisor of_unit; // jobs
    unsigned tiles;  // of a job
    Rounds early;    // rounds without the late blocks
    Rounds all;
    uint32_t begin[kMostBlocks + 1]; // the beginning of each block's stretch, in tiles of the line, and the line's end

    // None if there is not a job's time for every block, or for every late block after its start; if more than half of
    // the blocks are late; if there are more blocks than any GPU has multiprocessors; or if the line has too many tiles
    // to count. Takes the host some nanoseconds for each job.
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
        const uint32_t last = begin[block + 1] - 1; // at least the length of a job further on
        const uint32_t first_job = begin[block] / tiles;
        const uint32_t first_round = block < late() ? early.count : 0;
        return {block,
                first_round,
                rounds() - first_round + last / tiles + 1 - first_job,
                before_line() + first_job,
                begin[block] % tiles,
                tiles - 1 - last % tiles};
    }

    // The parts of a block, in order.
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

    // For blocks that all end at that time. Stretches are at least as long as a job, so that no job is cut twice.
    void cut_line(const EqualJobs& jobs, const LateBlocks& late, double time) {
        const auto time_of = [&](uint32_t job) { return (is_last_of_unit(job) ? jobs.last : 1) * tiles; };
        uint32_t job = before_line(); // the job that the next cut goes through, or an earlier one
        double of_line = 0;           // time of the line up to that job
        double cut = 0;               // time of the line up to the cut
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

// ---- The same under a mask, where jobs differ in length: all are in one line (shares.h). Long shares take equal time.
// Shares are computed before the launch, since blocks would begin later if they did.

template <class Tiles>
struct MaskedShares {
    static constexpr int64_t kMostBlocks = LateShares::kMostBlocks;
    // In tiles, measured on an H200: the time of a job's beginning and end, less than preparing_time()'s, since some
    // groups begin and end while others have tiles; the time from which on a job's end is worth a cut, which makes
    // another block begin and end, too; and the shares that are long enough to take equal time. Shorter ones have equal
    // numbers of tiles: with 128 heads of 512 rows, 12 tiles each, equal times took 4 % longer, with 64 heads 22 %.
    static constexpr double kBetweenJobs = 1;
    static constexpr double least_cut(bool many_units) { return many_units ? 3.1 : 2.6; }
    static constexpr double kLongShare = 24;

    // A share begins with that job, without tiles that the block before computes.
    struct Begin {
        uint32_t job;
        unsigned cut;
    };

    Tiles tiles;
    Divisor in_turn; // the number of blocks
    Begin begins[kMostBlocks + 1];

    // None if there is a block for every job, or if there are more blocks than any GPU has multiprocessors.
    static std::optional<MaskedShares> of(int64_t units, const Tiles& tiles, int64_t most_blocks) {
        const uint32_t of_unit = tiles.jobs.number();
        const auto before = [&](uint32_t job) { return static_cast<double>(tiles.before(job)) + kBetweenJobs * job; };
        const double longest = tiles.last + kBetweenJobs;
        const double unit_time = before(of_unit - 1) + longest;
        const double all = static_cast<double>(units) * unit_time;
        const int64_t blocks = std::min(most_blocks, static_cast<int64_t>(all / longest)); // no job is cut twice
        if (most_blocks >= units * of_unit || blocks > kMostBlocks) return std::nullopt;
        if (all < kLongShare * static_cast<double>(blocks)) return of_equal_tiles(units, tiles, most_blocks);
        MaskedShares masked{tiles, Divisor(static_cast<uint32_t>(blocks)), {}};
        for (int64_t block = 0; block < blocks; ++block) {
            const double at = all * static_cast<double>(block) / static_cast<double>(blocks);
            const auto unit = static_cast<uint32_t>(at / unit_time);
            const double in_unit = at - unit * unit_time;
            uint32_t job = 0; // in the unit: the last job that begins at or before that time
            for (uint32_t end = of_unit; end - job > 1;) {
                const uint32_t middle = job + (end - job) / 2;
                (before(middle) <= in_unit ? job : end) = middle;
            }
            const double cut_off = in_unit - before(job);
            const bool cuts = cut_off > least_cut(units >= 2 * blocks);
            const unsigned cut = cuts ? static_cast<unsigned>(cut_off - kBetweenJobs + 0.5) : 0;
            const bool whole = cut >= tiles.of(job); // the block before computes all of the job
            masked.begins[block] = {unit * of_unit + job + (whole ? 1 : 0), whole ? 0 : cut};
        }
        masked.begins[blocks] = {static_cast<uint32_t>(units) * of_unit, 0};
        return masked;
    }

    static std::optional<MaskedShares> of_equal_tiles(int64_t units, const Tiles& tiles, int64_t most_blocks) {
        const auto shares = SharesOf<Tiles>::of(units, tiles, most_blocks);
        const uint32_t blocks = shares.blocks.number();
        if (!shares.are_cut() || blocks > kMostBlocks) return std::nullopt;
        MaskedShares masked{tiles, shares.blocks, {}};
        for (uint32_t block = 0; block < blocks; ++block) {
            const Share share = shares.share(block);
            masked.begins[block] = {share.first_job, share.cut};
        }
        masked.begins[blocks] = {static_cast<uint32_t>(units) * tiles.jobs.number(), 0};
        return masked;
    }

    HW4_INLINE uint32_t blocks() const { return in_turn.number(); }
    HW4_INLINE JobPart part(const Share& share, uint32_t i) const { return share.part(i, tiles); }
    HW4_INLINE Share share(uint32_t block) const {
        const Begin& first = begins[block];
        const Begin& next = begins[block + 1];
        const uint32_t end = next.job + (next.cut > 0 ? 1 : 0);
        const unsigned after = next.cut > 0 ? tiles.of(next.job) - next.cut : 0;
        return {block, in_turn, 0, end - first.job, first.job, first.cut, after};
    }
};

// ---- The number of jobs (shares.h) of a launch, and whether groups of rows share a block

constexpr int kGroupRows = 64; // query rows of a group

// Jobs of a unit: each has the rows of a block's groups; the last may have fewer.
HW4_INLINE int64_t jobs_for(int64_t queries, int groups) {
    return (queries + groups * kGroupRows - 1) / (groups * kGroupRows);
}

// Groups of a unit's jobs that get no rows: in the last job or, under a mask, in the first, which has the fewest tiles.
HW4_INLINE int64_t missing_groups(int64_t queries, int groups) {
    return jobs_for(queries, groups) * groups - jobs_for(queries, 1);
}

// Groups of a block share its tiles, and so wait for the slowest of them; and the last job of a unit may leave some
// groups without rows. That pays for long sequences with few missing rows, if there is a job for every multiprocessor.
// Gains over separate groups, measured when it was chosen: at d = 64, N = 256, which lacks a third of the rows, -5 %; N
// = 512 and 1024, which lack a ninth, +7 and +6 %; at d = 32, N = 512, which lacks none, +12 %.
inline bool takes_joint(int64_t units, int64_t keys, int64_t queries, int groups, int multiprocessors) {
    constexpr int64_t kLongSequence = 512;
    const int64_t jobs = jobs_for(queries, groups);
    const int64_t missing = jobs * groups * kGroupRows - queries;
    return keys >= kLongSequence && missing <= queries / 8 && units * jobs >= multiprocessors;
}

// Whether wgmma_whole.cuh is better for such heads than separate groups: its jobs have three groups, and not too many
// groups may lack rows: at d = 32 less than a third, at 64 up to a third. Its time relative to separate groups,
// measured for many heads without a mask, at 64: N = 64 1.29, 100 and 128 0.94, 130 0.83, 192 0.84, 256 0.97, 384 0.81,
// 512 0.83, 1000 0.87, 1800 0.87; at 32: N = 64 1.44, 128 1.02, 160 0.84, 256 1.08, 320 0.93, 512 0.93, 1000 0.92.
inline bool takes_whole(int64_t keys, int64_t queries, int64_t dim) {
    constexpr int kGroups = 3;
    constexpr int64_t kFewKeys = 64; // it was not tried with so few
    const int64_t lacking = kGroups * missing_groups(queries, kGroups);
    const int64_t places = kGroups * jobs_for(queries, kGroups);
    return keys > kFewKeys && (dim == 64 ? lacking <= places : lacking < places);
}

// ---- When K and V are prepared: all heads before the products, or most of them beside the products.
//
// Beside: the whole GPU prepares the heads that are needed first. Then some multiprocessors prepare the others, in the
// order in which they are needed, while the rest start with the products; those with nothing left to prepare join them.
// When the whole GPU prepares, it waits for memory; a few multiprocessors hardly do, so that less time is taken from
// the products. A head's products begin when it is ready, and the bytes are the same.

// Only at d = 64 with two digits. It does not pay at d = 32 and 128, or with three digits, where it was tried too.
template <class Rules, int kDim>
constexpr bool kMayPrepareBeside = Rules::kDigits == 2 && kDim == 64;

// Heads that are prepared while jobs of other heads run.
struct PrepassWork {
    double jobs;   // per head (shares.h); one that takes half of the others' time is half a job
    int64_t tiles; // of a head, and of a job, which uses all tiles of its head
};

// The time in which one multiprocessor prepares a tile of a head, for any elements, relative to a job's time for a
// tile. Measured.
inline double preparing_time(const PrepassWork& work) {
    constexpr double kPrepare = 0.78;
    constexpr double kBetweenJobs = 1.6; // the beginning and end of a job
    return kPrepare / (1 + kBetweenJobs / static_cast<double>(work.tiles));
}

// The number of multiprocessors that prepare heads while the others compute.
inline int64_t preparers_for(const PrepassWork& work, int64_t multiprocessors) {
    constexpr double kLead = 1.6; // heads are prepared this much faster than needed: at first few are ready
    const double for_each_other = kLead * preparing_time(work) / work.jobs;
    return static_cast<int64_t>(for_each_other / (1 + for_each_other) * static_cast<double>(multiprocessors)) + 1;
}

// ---- The work of a launch without a mask, with the pre-pass if part of it runs beside the products

// On `multiprocessors` multiprocessors, each with a block of `groups` groups.
struct CardLaunch {
    int64_t units;
    int64_t heads; // of K and V, each with the same number of units
    int64_t queries;
    int64_t tiles; // in a head
    int groups;
    int64_t multiprocessors;

    EqualJobs jobs() const {
        const int64_t of_unit = jobs_for(queries, groups);
        const double last =
            of_unit == 1 ? 1 : time_with(groups - missing_groups(queries, groups)); // one job per unit: all are alike
        return {units, static_cast<uint32_t>(of_unit), static_cast<unsigned>(tiles), multiprocessors, last};
    }

private:
    // The time of a job with only some of the groups, relative to one with all groups: groups fill each other's waiting
    // time. Measured with three groups.
    double time_with(int64_t some) const {
        return 1 - 0.7 * static_cast<double>(groups - some) / static_cast<double>(groups);
    }
};

struct CardPlan {
    LateShares shares;
    int64_t heads_before; // the first heads, prepared by the whole GPU
    int64_t preparers;    // multiprocessors that prepare the others beside the products; 0: none

    // None if there is not a job's time for each multiprocessor.
    static std::optional<CardPlan> before(const CardLaunch& launch) {
        const auto shares = LateShares::of(launch.jobs(), {0, 0});
        if (!shares) return std::nullopt;
        return CardPlan{*shares, launch.heads, 0};
    }

    // None if heads are few or have a single tile, for which it was not tried.
    static std::optional<CardPlan> beside(const CardLaunch& launch) {
        if (launch.tiles < 2) return std::nullopt;
        const EqualJobs jobs = launch.jobs();
        const int64_t units_of_head = launch.units / launch.heads;
        const PrepassWork work{static_cast<double>(units_of_head) * jobs.time_of_unit() / jobs.tiles, launch.tiles};
        const int64_t preparers = preparers_for(work, launch.multiprocessors);
        // The heads of the first two rounds, since a block looks ahead by one.
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
