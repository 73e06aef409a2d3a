// A division of work among blocks that stay on the multiprocessors: by tiles, so that all of them end together, however
// few jobs there are for each. A job is some query rows against all their keys.
//
// Most jobs, of as many tiles each, go to the blocks in turn, so that at any time all work on neighbours, which share
// their keys; in each round to another one first, since the last job of a head may be less work than others, and may be
// at the same place in every round. The last ones, at least one for each block and less than two, follow one another in
// a line that is cut into one share for each block. A cut may go through a job. The block after the cut then does the
// job's first tiles, and does them before all else; the block before the cut does the others, as the last thing it
// does, which is not before, if all are as fast. So a job's tiles are done one after the other, and hardly anybody
// waits: the running sums go from one block to the other through memory. (McNaughton's rule for jobs that may be
// interrupted.)
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
    unsigned tiles;     // of a job

    HW4_INLINE JobPart part(uint32_t i) const {
        // In each round, of as many jobs as there are blocks, a block has the one after that of the round before.
        if (i > 0 && i <= whole) return {(i - 1) * blocks.number() + blocks.remainder(block + i), 0, tiles};
        if (i == 0 && cut > 0) return {first_job, 0, tiles - cut};
        return {first_job + (i == 0 ? 0 : i - whole), i + 1 == parts ? after : 0, tiles};
    }
};

struct Shares {
    unsigned tiles; // of a job
    Divisor blocks; // no more than there are jobs, of which there are fewer than 2^32
    uint32_t whole; // jobs of each block before the line
    int64_t least;  // tiles of the line in every share
    int64_t more;   // so many shares have one more

    static Shares of(int64_t jobs, unsigned tiles, int64_t blocks) {
        const int64_t whole = jobs / blocks - 1;
        const int64_t line = (jobs - whole * blocks) * tiles;
        return {tiles, Divisor(static_cast<uint32_t>(blocks)), static_cast<uint32_t>(whole), line / blocks,
                line % blocks};
    }

    HW4_INLINE int64_t begin(int64_t block) const { return block * least + (block < more ? block : more); }

    HW4_INLINE Share share(uint32_t block) const {
        const int64_t first = begin(block);
        const int64_t end = begin(int64_t{block} + 1); // at least a job's length further on
        const auto first_job = static_cast<uint32_t>(first / tiles);
        const auto end_job = static_cast<uint32_t>((end + tiles - 1) / tiles);
        return {block,
                blocks,
                whole,
                whole + end_job - first_job,
                whole * blocks.number() + first_job,
                static_cast<unsigned>(first - int64_t{first_job} * tiles),
                static_cast<unsigned>(int64_t{end_job} * tiles - end),
                tiles};
    }
};

} // namespace hw4::gpu
