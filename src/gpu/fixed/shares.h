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

#include "../../contract.h"

namespace hw4::gpu::fixed_point {

// Some tiles of a unit, [first, end), that one block does.
struct Piece {
    int64_t unit;
    unsigned first;
    unsigned end;
};

// What one block does, piece after piece.
struct Share {
    int64_t block;
    int64_t blocks;
    int64_t whole;      // units that it does in turn with the others
    int64_t begin;      // of its part of the line, in tiles
    int64_t end;        // at least a unit's length further on
    int64_t first_unit; // there, among all units
    int64_t cut;        // tiles of that one that are another block's
    unsigned tiles;     // of a unit

    HW4_INLINE int64_t pieces() const { return whole + (cut + (end - begin) + tiles - 1) / tiles; }

    HW4_INLINE Piece piece(int64_t i) const {
        if (i > 0 && i <= whole) return {(i - 1) * blocks + in_round(i), 0, tiles};
        return in_line(i == 0 ? 0 : i - whole);
    }

private:
    // Which unit of a round, of as many as there are blocks.
    HW4_INLINE uint32_t in_round(int64_t round) const {
        return static_cast<uint32_t>(block + round) % static_cast<uint32_t>(blocks);
    }

    HW4_INLINE Piece in_line(int64_t i) const {
        const int64_t after = (i + 1) * tiles - cut - (end - begin); // the next share's part of the unit
        if (i == 0 && cut > 0) return {first_unit, 0, tiles - static_cast<unsigned>(cut)};
        if (after > 0) return {first_unit + i, static_cast<unsigned>(after), tiles};
        return {first_unit + i, 0, tiles};
    }
};

struct Shares {
    unsigned tiles; // of a unit
    int64_t blocks; // no more than there are units
    int64_t whole;  // units of each block before the line
    int64_t least;  // tiles of the line in every share
    int64_t more;   // so many shares have one more

    static Shares of(int64_t units, unsigned tiles, int64_t blocks) {
        const int64_t whole = units / blocks - 1;
        const int64_t line = (units - whole * blocks) * tiles;
        return {tiles, blocks, whole, line / blocks, line % blocks};
    }

    HW4_INLINE int64_t begin(int64_t block) const { return block * least + (block < more ? block : more); }

    HW4_INLINE Share share(int64_t block) const {
        const int64_t first = begin(block);
        const int64_t unit = first / tiles;
        return {block, blocks, whole, first, begin(block + 1), whole * blocks + unit, first - unit * tiles, tiles};
    }
};

} // namespace hw4::gpu::fixed_point
