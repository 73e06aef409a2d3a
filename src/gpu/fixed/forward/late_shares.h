// The division of work of src/gpu/common/shares.h among blocks of which some begin late, when the others have done so
// many tiles. Jobs are all of as many tiles. No CUDA here, so that it can be tested anywhere.
//
// The late blocks are the first ones, and have less by what they missed. Most jobs go to the blocks in turn: in the
// first rounds without the late ones, then with all. The last jobs follow one another in a line that is cut into a
// stretch for each block, which it does when it has done its rounds. Where a cut goes through a job, the block after it
// does the job's first tiles, as the first of its stretch, and the block before it the others, as the last of all: when
// it comes to them, the first ones are done, if all are as fast.
#pragma once

#include <cstdint>
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
};

struct LateBlocks {
    int64_t blocks;
    int64_t tiles; // that the others do before those begin
};

// Jobs that go to some blocks in turn, in rounds of as many.
struct Rounds {
    Divisor blocks;
    uint32_t count;

    HW4_INLINE uint32_t jobs() const { return count * blocks.number(); }

    // In each round a block has the job after that of the round before: the last of a unit may be less work.
    HW4_INLINE uint32_t job(uint32_t round, uint32_t block) const {
        return round * blocks.number() + blocks.remainder(block + 1 + round);
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
    Divisor of_unit; // jobs
    unsigned tiles;  // of a job
    Rounds early;    // without the late blocks
    Rounds all;
    int64_t least;      // tiles of the line in every stretch
    int64_t more;       // so many stretches have one more
    int64_t least_late; // in those of late blocks

    // None where there are not more jobs than blocks, where more than half of the blocks are late, or where no job
    // would be left for those.
    static std::optional<LateShares> of(const EqualJobs& jobs, const LateBlocks& late) {
        const int64_t tiles = jobs.tiles;
        const int64_t sum = jobs.units * jobs.of_unit * tiles;
        const int64_t early = jobs.blocks - late.blocks;
        const int64_t of_late = (sum - early * late.tiles) / jobs.blocks;
        if (jobs.units * jobs.of_unit <= jobs.blocks || late.blocks > early || of_late < tiles) return std::nullopt;
        const int64_t in_turn = of_late / tiles - 1;
        const int64_t before = late.tiles / tiles;
        const int64_t least_late = of_late - in_turn * tiles;
        const int64_t line = sum - (before * early + in_turn * jobs.blocks) * tiles - late.blocks * least_late;
        return LateShares{Divisor(jobs.of_unit),
                          jobs.tiles,
                          {Divisor(static_cast<uint32_t>(early)), static_cast<uint32_t>(before)},
                          {Divisor(static_cast<uint32_t>(jobs.blocks)), static_cast<uint32_t>(in_turn)},
                          line / early,
                          line % early,
                          least_late};
    }

    HW4_INLINE uint32_t blocks() const { return all.blocks.number(); }
    HW4_INLINE uint32_t late() const { return blocks() - early.blocks.number(); }

    HW4_INLINE LateShare share(uint32_t block) const {
        const int64_t first = begin(block);
        const int64_t last = begin(int64_t{block} + 1) - 1; // at least a job's length further on
        const auto first_job = static_cast<uint32_t>(first / tiles);
        const auto last_job = static_cast<uint32_t>(last / tiles);
        const uint32_t first_round = block < late() ? early.count : 0;
        return {block,
                first_round,
                rounds() - first_round + last_job + 1 - first_job,
                early.jobs() + all.jobs() + first_job,
                static_cast<unsigned>(first % tiles),
                tiles - 1 - static_cast<unsigned>(last % tiles)};
    }

    // What a block does, one after the other. With one return: with a return for each kind of part the compiler makes
    // the loop of a kernel, far from here, 2 % slower.
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

    // Of the line.
    HW4_INLINE int64_t begin(int64_t block) const {
        if (block <= late()) return block * least_late;
        const int64_t of_others = block - late();
        return late() * least_late + of_others * least + (of_others < more ? of_others : more);
    }
};

} // namespace hw4::gpu::fixed_point
