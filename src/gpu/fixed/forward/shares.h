// How blocks that stay on the multiprocessors divide the work: by tiles, so that all of them end together, however few
// units of work there are for each.
//
// Most units, of as many tiles each, go to the blocks in turn, so that at any time all work on neighbours, which share
// their keys; in each round to another one first, since the last unit of a batch may be less work than others, and may
// be at the same place in every round. The last ones, at least one for each block and less than two, follow one another
// in a line that is cut into one share for each block. A cut may go through a unit. The block after the cut then does
// the unit's first tiles, and does them before all else; the block before the cut does the others, as the last thing it
// does, which is not before, if all are as fast. So a unit's tiles are done one after the other, and hardly anybody
// waits: the running sums go from one block to the other through memory. (McNaughton's rule for jobs that may be
// interrupted.)
#pragma once

#include <cstdint>

#include "src/contracts/f32/forward.h"
#include "src/gpu/fixed/forward/divisor.h"

namespace hw4::gpu::fixed_point {

// Some tiles of a unit, [first, end), that one block does.
struct Piece {
    uint32_t unit;
    unsigned first;
    unsigned end;
};

// What one block does, piece after piece.
struct Share {
    uint32_t block;
    Divisor blocks;
    uint32_t whole;      // units that it does in turn with the others
    uint32_t pieces;     // all together
    uint32_t first_unit; // of its part of the line, among all units
    unsigned cut;        // tiles of that one that are another block's
    unsigned after;      // tiles of the last one there that are the next block's
    unsigned tiles;      // of a unit

    HW4_INLINE Piece piece(uint32_t i) const {
        // In each round, of as many units as there are blocks, a block has the one after that of the round before.
        if (i > 0 && i <= whole) return {(i - 1) * blocks.number() + blocks.remainder(block + i), 0, tiles};
        if (i == 0 && cut > 0) return {first_unit, 0, tiles - cut};
        return {first_unit + (i == 0 ? 0 : i - whole), i + 1 == pieces ? after : 0, tiles};
    }
};

struct Shares {
    unsigned tiles; // of a unit
    Divisor blocks; // no more than there are units, of which there are fewer than 2^32
    uint32_t whole; // units of each block before the line
    int64_t least;  // tiles of the line in every share
    int64_t more;   // so many shares have one more

    static Shares of(int64_t units, unsigned tiles, int64_t blocks) {
        const int64_t whole = units / blocks - 1;
        const int64_t line = (units - whole * blocks) * tiles;
        return {tiles, Divisor(static_cast<uint32_t>(blocks)), static_cast<uint32_t>(whole), line / blocks,
                line % blocks};
    }

    HW4_INLINE int64_t begin(int64_t block) const { return block * least + (block < more ? block : more); }

    HW4_INLINE Share share(uint32_t block) const {
        const int64_t first = begin(block);
        const int64_t end = begin(int64_t{block} + 1); // at least a unit's length further on
        const auto first_unit = static_cast<uint32_t>(first / tiles);
        const auto end_unit = static_cast<uint32_t>((end + tiles - 1) / tiles);
        return {block,
                blocks,
                whole,
                whole + end_unit - first_unit,
                whole * blocks.number() + first_unit,
                static_cast<unsigned>(first - int64_t{first_unit} * tiles),
                static_cast<unsigned>(int64_t{end_unit} * tiles - end),
                tiles};
    }
};

} // namespace hw4::gpu::fixed_point
