// The division of work of src/gpu/common/shares.h among blocks of which some may begin late, when the others have done
// so many tiles. Jobs are all of as many tiles, and all tiles take as long, but for those of a unit's last job, which
// may be done faster. No CUDA here, so that it can be tested anywhere.
//
// The late blocks are the first ones, and have less by what they missed. Most jobs go to the blocks in turn: in the
// first rounds without the late ones, then with all. The others, at least one for each block, and more the faster the
// last of a unit are, follow one another in a line that is cut into a stretch for each block, which it does when it has
// done its rounds, so that all end together. Where a cut goes through a job, the block after it does the job's first
// tiles, as the first of its stretch, and the block before it the others, as the last of all: when it comes to them,
// the first ones are done, if all are as fast.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "src/base/inline.h"
#include "src/gpu/common/divisor.h"
#include "src/gpu/common/shares.h"

namespace hw4::gpu::fixed_point {

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

} // namespace hw4::gpu::fixed_point
