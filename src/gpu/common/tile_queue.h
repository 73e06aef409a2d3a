// A division of work among blocks that stay on the multiprocessors: a queue from which they draw, whole rows of tiles
// first, the last rows in pieces. Pure, so that it is tested without a GPU.
//
// Where rows differ in length, as under a mask, they are drawn from the longest to the shortest, and none is cut: the
// last ones are as short as pieces.
//
// Beside shares.h, which settles at the start who does what: multiprocessors are not equally fast for every kernel, and
// one that is slower draws less. For f32 the queue brings 2 to 6 %, shares brought 0.5 to 3 %. The price is that a
// block learns of its next work only when it draws it.
#pragma once

#include <cstdint>

#include "src/base/inline.h"

namespace hw4::gpu {

constexpr unsigned kCutRows = 2;    // that come in pieces, for each block
constexpr unsigned kMostPieces = 8; // of a row

struct Queue {
    unsigned whole; // rows, first in the queue
    unsigned cut;   // rows: then come the first pieces of all of them, then all second pieces, ...
    unsigned pieces;
    unsigned ends[kMostPieces]; // where piece n of a row ends, in tiles

    HW4_INLINE unsigned length() const { return whole + cut * pieces; }
};

// Fewer rows than three for two blocks are better not drawn: too many blocks would find no first piece for a second
// turn, and wait for others to end theirs.
HW4_INLINE bool is_worth_a_queue(int64_t rows, int64_t blocks) { return 2 * rows >= 3 * blocks; }

// The rows that come in pieces, the last ones; of rows that are as long as each other or not.
HW4_INLINE unsigned cut_rows(unsigned rows, unsigned blocks, bool equal) {
    if (!equal) return 0;
    return rows < kCutRows * blocks ? rows : kCutRows * blocks;
}

// What remains of a cut row after a piece: a half, or, where nearly every block finds a first piece for a second turn,
// a third. The last piece is at most two tiles and a 64th of the row.
HW4_INLINE void fill(Queue& queue, unsigned rows, unsigned tiles, unsigned blocks, bool equal) {
    queue.cut = cut_rows(rows, blocks, equal);
    queue.whole = rows - queue.cut;
    const unsigned part = 3 * queue.cut < 5 * blocks ? 2 : 3;
    queue.pieces = 0;
    for (unsigned remaining = tiles; remaining > 0; ++queue.pieces) {
        const bool last = remaining <= 2 + tiles / 64 || queue.pieces + 1 == kMostPieces;
        remaining = last ? 0 : remaining / part;
        queue.ends[queue.pieces] = tiles - remaining;
    }
}

} // namespace hw4::gpu
