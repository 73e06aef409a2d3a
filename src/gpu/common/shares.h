// Divides work among persistent blocks, by tiles, so that all blocks end together even if there are few jobs for each.
// A job is some query rows against all keys that they see.
//
// Most jobs have the same number of tiles and go to the blocks in turn, so that at any time all blocks work on adjacent
// jobs, which share their keys. Each round starts with another block, since the last job of a head may be less work
// than others and may be at the same place in every round. The last jobs, at least one and less than two for each
// block, form a line that is cut into one share for each block. A cut may go through a job. The block after the cut
// then computes the job's first tiles, before all its other work; the block before the cut computes the other tiles as
// its last work, which is not earlier if all blocks are equally fast. So a job's tiles are computed in order, and
// blocks hardly ever wait: the running sums go from one block to the other through memory. (McNaughton's rule for
// preemptive scheduling.) Under a mask jobs differ in length: all of them are in the line, and no share is shorter than
// the longest job, which takes its time in any case. If the longest job is longer than an even share, there are only as
// many blocks as there are shares of its length, and each share is longer than the job by less than the job's length
// divided by their number. If there is a block for every job, each block has one.
//
// Why not tile_queue.h, which has the same purpose: here a block has to know all its jobs from the start, because their
// keys, and meanwhile their queries, are fetched long before their turn. The price is the assumption that blocks are
// equally fast. In f32 they are not: long unrolled code is late on some multiprocessors, and a queue brings 2 to 6 %,
// shares 0.5 to 3 %.
#pragma once

#include <cstdint>

#include "src/base/inline.h"
#include "src/gpu/common/divisor.h"

namespace hw4::gpu {

// The number of tiles of each job of a unit: the same for all or, under a mask, increasing from job to job, counted in
// the kPieces pieces of a tile.
template <int kPieces>
struct JobTilesIn {
    static_assert(kPieces == 1 || kPieces == 2);
    Divisor jobs;  // of a unit
    unsigned last; // tiles of the last job, the maximum
    int first;     // job i of the others needs first + i * more pieces, or 1 if that is less
    int more;

    HW4_INLINE unsigned of(uint32_t job) const {
        if (more == 0) return last;
        const uint32_t index = jobs.remainder(job);
        if (index + 1 == jobs.number()) return last;
        const int needed = first + static_cast<int>(index) * more;
        return needed > 1 ? static_cast<unsigned>((needed + kPieces - 1) / kPieces) : 1;
    }

    // The tiles of a unit's jobs before that job.
    HW4_INLINE int64_t before(uint32_t index) const {
        if (more == 0) return int64_t{index} * last;
        const int64_t n = index;
        const int64_t below =
            first < 1 ? (int64_t{1} - first + more - 1) / more : 0; // jobs that would need less than 1
        const int64_t ones = below < n ? below : n;
        const int64_t needed = (n - ones) * first + (n * (n - 1) - ones * (ones - 1)) / 2 * more;
        if constexpr (kPieces == 1) return ones + needed;
        return ones + (needed + odd_between(ones, n)) / 2;
    }

    HW4_INLINE int64_t of_unit() const { return before(jobs.number() - 1) + last; }

private:
    // The number of jobs in [from, to) that need an odd number of pieces, and so half a tile.
    HW4_INLINE int64_t odd_between(int64_t from, int64_t to) const {
        const bool begins_odd = ((first + from * more) & 1) != 0;
        if (more % 2 == 0) return begins_odd ? to - from : 0;
        return (to - from + (begins_odd ? 1 : 0)) / 2;
    }
};
using JobTiles = JobTilesIn<1>;

// Tiles [first, end) of a job, for one block.
struct JobPart {
    uint32_t job;
    unsigned first;
    unsigned end;
};

// The work of one block, part by part.
struct Share {
    uint32_t block;
    Divisor blocks;
    uint32_t whole;     // jobs that it takes in turn with the others
    uint32_t parts;     // total number of parts
    uint32_t first_job; // the first job of its stretch of the line, counted among all jobs
    unsigned cut;       // tiles of that job that belong to another block
    unsigned after;     // tiles of the last job there that belong to the next block

    template <class Tiles>
    HW4_INLINE JobPart part(uint32_t i, const Tiles& tiles) const {
        // In each round, of as many jobs as there are blocks, a block takes the job after its job of the round before.
        if (i > 0 && i <= whole) return {(i - 1) * blocks.number() + blocks.remainder(block + i), 0, tiles.last};
        const uint32_t job = first_job + (i == 0 ? 0 : i - whole);
        if (i == 0 && cut > 0) return {job, 0, tiles.of(job) - cut};
        return {job, i + 1 == parts ? after : 0, tiles.of(job)};
    }
};

template <class Tiles>
struct SharesOf {
    Tiles tiles;
    Divisor blocks; // at most the number of jobs, which is below 2^32
    uint32_t whole; // jobs of each block before the line
    int64_t least;  // tiles of the line in every share; 0: a job for each block
    int64_t more;   // this many shares have one tile more

    // For at most `most_blocks` blocks.
    static SharesOf of(int64_t units, const Tiles& tiles, int64_t most_blocks) {
        const int64_t jobs = units * tiles.jobs.number();
        if (most_blocks >= jobs) return {tiles, Divisor(static_cast<uint32_t>(jobs)), 0, 0, 0};
        const bool equal = tiles.more == 0;
        const int64_t all = units * tiles.of_unit();
        const int64_t blocks = equal || all / tiles.last > most_blocks ? most_blocks : all / tiles.last;
        const int64_t whole = equal ? jobs / blocks - 1 : 0;
        const int64_t line = all - whole * blocks * tiles.last;
        return {tiles, Divisor(static_cast<uint32_t>(blocks)), static_cast<uint32_t>(whole), line / blocks,
                line % blocks};
    }

    // Whether a block may start a job that another block ends.
    HW4_INLINE bool are_cut() const { return least > 0; }

    HW4_INLINE Share share(uint32_t block) const {
        if (!are_cut()) return {block, blocks, 0, 1, block, 0, 0};
        const Place first = place(begin(block));
        const Place last = place(begin(int64_t{block} + 1) - 1); // at least the length of a job further on
        return {block,
                blocks,
                whole,
                whole + last.job + 1 - first.job,
                whole * blocks.number() + first.job,
                first.tile,
                tiles.of(last.job) - 1 - last.tile};
    }

private:
    // A tile of the line.
    struct Place {
        uint32_t job; // in the line
        unsigned tile;
    };

    HW4_INLINE int64_t begin(int64_t block) const { return block * least + (block < more ? block : more); }

    HW4_INLINE Place place(int64_t at) const {
        if (tiles.more == 0) return {static_cast<uint32_t>(at / tiles.last), static_cast<unsigned>(at % tiles.last)};
        const int64_t of_unit = tiles.of_unit();
        const auto unit = static_cast<uint32_t>(at / of_unit);
        const int64_t rest = at - unit * of_unit;
        uint32_t job = 0; // in the unit: the last job that begins at or before the place
        for (uint32_t end = tiles.jobs.number(); end - job > 1;) {
            const uint32_t middle = job + (end - job) / 2;
            (tiles.before(middle) <= rest ? job : end) = middle;
        }
        return {unit * tiles.jobs.number() + job, static_cast<unsigned>(rest - tiles.before(job))};
    }
};
using Shares = SharesOf<JobTiles>;

} // namespace hw4::gpu
