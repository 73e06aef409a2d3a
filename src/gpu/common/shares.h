// A division of work among blocks that stay on the multiprocessors: by tiles, so that all of them end together, however
// few jobs there are for each. A job is some query rows against all keys that they see.
//
// Most jobs, of as many tiles each, go to the blocks in turn, so that at any time all work on neighbours, which share
// their keys; in each round to another one first, since the last job of a head may be less work than others, and may be
// at the same place in every round. The last ones, at least one for each block and less than two, follow one another in
// a line that is cut into one share for each block. A cut may go through a job. The block after the cut then does the
// job's first tiles, and does them before all else; the block before the cut does the others, as the last thing it
// does, which is not before, if all are as fast. So a job's tiles are done one after the other, and hardly anybody
// waits: the running sums go from one block to the other through memory. (McNaughton's rule for jobs that may be
// interrupted.) Under a mask, where jobs differ in length, all of them are in the line, and no share is shorter than
// the longest job, which would take as long in any case: where that is more than an even share, there are as many
// blocks as such shares, each longer than the job by less than the job's part for one of them. Where there is a block
// for every job, each has one.
//
// Beside tile_queue.h, which serves the same end, since a block here has to know all its jobs from the start: their
// keys are fetched, and their queries on the way, long before their turn. The price is that blocks are taken to be
// equally fast. Where they are not, as in f32, whose long unrolled code is late on some multiprocessors, a queue brings
// 2 to 6 % and shares 0.5 to 3 %.
#pragma once

#include <cstdint>

#include "src/base/inline.h"
#include "src/gpu/common/divisor.h"

namespace hw4::gpu {

// How many tiles the jobs of a unit have: all as many or, under a mask, each more than the one before, counted in the
// kPieces pieces of a tile.
template <int kPieces>
struct JobTilesIn {
    static_assert(kPieces == 1 || kPieces == 2);
    Divisor jobs;  // of a unit
    unsigned last; // tiles of the last job, the most
    int first;     // job i of the others needs first + i * more pieces, or 1 where that is less
    int more;

    HW4_INLINE unsigned of(uint32_t job) const {
        if (more == 0) return last;
        const uint32_t index = jobs.remainder(job);
        if (index + 1 == jobs.number()) return last;
        const int needed = first + static_cast<int>(index) * more;
        return needed > 1 ? static_cast<unsigned>((needed + kPieces - 1) / kPieces) : 1;
    }

    // Tiles of a unit's jobs before that one.
    HW4_INLINE int64_t before(uint32_t index) const {
        if (more == 0) return int64_t{index} * last;
        const int64_t n = index;
        const int64_t below = first < 1 ? (int64_t{1} - first + more - 1) / more : 0; // so many would have less than 1
        const int64_t ones = below < n ? below : n;
        const int64_t needed = (n - ones) * first + (n * (n - 1) - ones * (ones - 1)) / 2 * more;
        if constexpr (kPieces == 1) return ones + needed;
        return ones + (needed + odd_between(ones, n)) / 2;
    }

    HW4_INLINE int64_t of_unit() const { return before(jobs.number() - 1) + last; }

private:
    // How many of the jobs [from, to) need an odd number of pieces, and so half a tile.
    HW4_INLINE int64_t odd_between(int64_t from, int64_t to) const {
        const bool begins_odd = ((first + from * more) & 1) != 0;
        if (more % 2 == 0) return begins_odd ? to - from : 0;
        return (to - from + (begins_odd ? 1 : 0)) / 2;
    }
};
using JobTiles = JobTilesIn<1>;

// Some tiles of a job, [first, end), that one block does.
struct JobPart {
    uint32_t job;
    unsigned first;
    unsigned end;
};

// What one block does, part after part.
struct Share {
    uint32_t block;
    Divisor blocks;
    uint32_t whole;     // jobs that it does in turn with the others
    uint32_t parts;     // all together
    uint32_t first_job; // of its stretch of the line, among all jobs
    unsigned cut;       // tiles of that one that are another block's
    unsigned after;     // tiles of the last one there that are the next block's

    template <class Tiles>
    HW4_INLINE JobPart part(uint32_t i, const Tiles& tiles) const {
        // In each round, of as many jobs as there are blocks, a block has the one after that of the round before.
        if (i > 0 && i <= whole) return {(i - 1) * blocks.number() + blocks.remainder(block + i), 0, tiles.last};
        const uint32_t job = first_job + (i == 0 ? 0 : i - whole);
        if (i == 0 && cut > 0) return {job, 0, tiles.of(job) - cut};
        return {job, i + 1 == parts ? after : 0, tiles.of(job)};
    }
};

template <class Tiles>
struct SharesOf {
    Tiles tiles;
    Divisor blocks; // no more than there are jobs, of which there are fewer than 2^32
    uint32_t whole; // jobs of each block before the line
    int64_t least;  // tiles of the line in every share; 0: a job for each block
    int64_t more;   // so many shares have one more

    // For at most so many blocks.
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

    // Whether a block may begin what another one ends.
    HW4_INLINE bool are_cut() const { return least > 0; }

    HW4_INLINE Share share(uint32_t block) const {
        if (!are_cut()) return {block, blocks, 0, 1, block, 0, 0};
        const Place first = place(begin(block));
        const Place last = place(begin(int64_t{block} + 1) - 1); // at least a job's length further on
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
        uint32_t job; // of the line
        unsigned tile;
    };

    HW4_INLINE int64_t begin(int64_t block) const { return block * least + (block < more ? block : more); }

    HW4_INLINE Place place(int64_t at) const {
        if (tiles.more == 0) return {static_cast<uint32_t>(at / tiles.last), static_cast<unsigned>(at % tiles.last)};
        const int64_t of_unit = tiles.of_unit();
        const auto unit = static_cast<uint32_t>(at / of_unit);
        const int64_t rest = at - unit * of_unit;
        uint32_t job = 0; // of the unit: the last that does not begin after the place
        for (uint32_t end = tiles.jobs.number(); end - job > 1;) {
            const uint32_t middle = job + (end - job) / 2;
            (tiles.before(middle) <= rest ? job : end) = middle;
        }
        return {unit * tiles.jobs.number() + job, static_cast<unsigned>(rest - tiles.before(job))};
    }
};
using Shares = SharesOf<JobTiles>;

} // namespace hw4::gpu
