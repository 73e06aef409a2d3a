// How the blocks that form pairs share the work. A row of tiles is a block of query rows against the keys that they
// see; blocks draw pieces of such rows from a queue until none is left. A piece owes nothing to another, so a row may
// be cut anywhere: long pieces first, since a piece begins with its rows of Q and dO, and short ones at last, so that
// all multiprocessors end together. Pure, so that it is tested without a GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/inline.h"

namespace hw4::gpu {

struct PairPiece {
    uint32_t row; // of tiles
    uint32_t first_tile;
    uint32_t end_tile; // may be beyond the row's last, and so may first_tile
};

struct PairQueue {
    uint32_t rows;
    uint32_t long_rows; // first in the queue
    uint32_t long_tiles;
    uint32_t long_pieces; // of each of them
    uint32_t short_tiles;
    uint32_t short_pieces;

    HW4_INLINE uint32_t length() const { return long_rows * long_pieces + (rows - long_rows) * short_pieces; }

    HW4_INLINE PairPiece piece(uint32_t drawn) const {
        const uint32_t in_long = long_rows * long_pieces;
        if (drawn < in_long) return cut(0, drawn, long_pieces, long_tiles);
        return cut(long_rows, drawn - in_long, short_pieces, short_tiles);
    }

private:
    HW4_INLINE static PairPiece cut(uint32_t first_row, uint32_t index, uint32_t pieces, uint32_t tiles) {
        const uint32_t first = index % pieces * tiles;
        return {first_row + index / pieces, first, first + tiles};
    }
};

// `rows` of up to so many tiles, `share` of which are there (under a mask), on so many blocks. Rows that differ in
// length come with the longest first; the last of them are as short as pieces.
inline PairQueue pair_queue(int64_t rows, int64_t tiles, double share, int64_t blocks) {
    constexpr int64_t kShortPieces = 32; // for each block, if all pieces were short
    constexpr int64_t kLongPieces = 6;
    const auto tiles_of_block = static_cast<int64_t>(static_cast<double>(rows) * static_cast<double>(tiles) * share /
                                                     static_cast<double>(blocks));
    const auto parts = [](int64_t whole, int64_t part) { return static_cast<uint32_t>((whole + part - 1) / part); };
    PairQueue queue{};
    queue.rows = static_cast<uint32_t>(rows);
    queue.long_rows = static_cast<uint32_t>(share < 1 ? rows : rows * 3 / 4);
    queue.long_tiles = static_cast<uint32_t>(std::clamp<int64_t>(tiles_of_block / kLongPieces, 1, tiles));
    queue.long_pieces = parts(tiles, queue.long_tiles);
    queue.short_tiles = static_cast<uint32_t>(std::clamp<int64_t>(tiles_of_block / kShortPieces, 1, tiles));
    queue.short_pieces = parts(tiles, queue.short_tiles);
    return queue;
}

} // namespace hw4::gpu
