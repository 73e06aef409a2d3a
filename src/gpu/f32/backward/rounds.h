// How kept_pairs divides its work: the pieces that blocks draw, and the rounds that memory has room for. No CUDA here,
// so that it can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/inline.h"
#include "src/contracts/f32/asked_gradients.h"
#include "src/gpu/device.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

// ---- How the blocks that form pairs share the work. A row of tiles is a block of query rows against the keys that
// they see; blocks draw pieces of such rows from a queue until none is left. A piece owes nothing to another, so a row
// may be cut anywhere: long pieces first, since a piece begins with its rows of Q and dO, and short ones at last, so
// that all multiprocessors end together.

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

// ---- How a launch that keeps pairs is cut into rounds, by the memory there is for them: as many units at once as fit,
// or, where not even one does, slabs of its query rows.

constexpr int64_t kPaddedRows = 128; // pairs come in blocks of so many query rows, and so do sums
constexpr int64_t kPaddedKeys = 64;  // and tiles of so many keys

inline int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
inline int64_t whole_parts(int64_t whole, int64_t part) { return parts_of(whole, part) * part; }

// What a launch has in memory, in floats. Here and below, of a part of backward the problem is that of its rows
// (AskedGradients::of_rows).
struct RoundSizes {
    AskedGradients asked;
    int64_t key_tiles;  // of a row of tiles
    int64_t part_row;   // of a row of sums
    int64_t keys;       // of a unit
    int64_t key_groups; // likewise
    bool in_parts;      // sums may have to be apart

    explicit RoundSizes(const Problem& problem)
        : asked(problem), key_tiles(parts_of(asked.keys, kPaddedKeys)),
          part_row(whole_parts(problem.dim, problem.dim <= 32 ? 32 : 64)), keys(asked.keys),
          key_groups(parts_of(keys, kGroupRows)),
          in_parts((asked.gives_dq && keys > kGroupRows) ||
                   (asked.gives_dk_dv && (problem.heads != problem.kv_heads || problem.queries > kGroupRows))) {}

    int64_t pairs(int64_t rows) const { // P, and as much for dS
        return whole_parts(rows, kPaddedRows) * key_tiles * kPaddedKeys;
    }
    int64_t query_parts(int64_t rows) const { return asked.gives_dq ? key_groups * rows * part_row : 0; }
    int64_t key_parts(int64_t rows) const { return parts_of(rows, kGroupRows) * key_totals(); } // of dK, and of dV
    int64_t key_totals() const { return asked.gives_dk_dv ? keys * part_row : 0; }
    int64_t of_unit(int64_t rows) const {
        return 2 * pairs(rows) + (in_parts ? query_parts(rows) + 2 * key_parts(rows) : 0);
    }
};

struct Rounds {
    int64_t units_at_once;
    int64_t slab_rows; // of a unit; fewer than it has only where units_at_once is 1
    int64_t slabs;     // of a unit
    bool apart;        // groups of the sums each for itself, to be joined afterwards
};

// In bytes; of what no card could hold, that it could not.
inline size_t round_bytes(const RoundSizes& sizes, const Rounds& rounds) {
    constexpr int64_t kMost = int64_t{1} << 60;
    const int64_t unit = sizes.of_unit(rounds.slab_rows);
    if (unit > kMost / rounds.units_at_once) return static_cast<size_t>(kMost) * sizeof(float);
    const int64_t totals = rounds.slabs > 1 ? 2 * sizes.key_totals() : 0;
    return static_cast<size_t>(rounds.units_at_once * unit + totals) * sizeof(float);
}

inline int64_t least_slab(const Problem& problem) { return std::min<int64_t>(problem.queries, kGroupRows); }

// Of sums as many blocks as come at once, or better several times as many, or the last ones leave most of the card
// idle. Cut at their groups there are more of them, which cost memory and a kernel that joins them.
inline bool needs_sums_apart(const Problem& problem, const Rounds& rounds, const Device& device) {
    const RoundSizes sizes(problem);
    const AskedGradients& asked = sizes.asked;
    if (!sizes.in_parts) return false;
    if (asked.gives_dk_dv && (rounds.slabs > 1 || problem.heads != problem.kv_heads)) return true;
    constexpr double kFewTurns = 2;
    const int64_t columns = problem.dim <= 32 ? 1 : parts_of(problem.dim, 64);
    const int64_t of_keys = asked.gives_dk_dv ? 2 * parts_of(asked.keys, kPaddedRows) : 0;
    const int64_t of_queries = asked.gives_dq ? parts_of(rounds.slab_rows, kPaddedRows) : 0;
    const int64_t blocks = rounds.units_at_once * columns * (of_keys + of_queries);
    const double share = problem.pairs() / (static_cast<double>(problem.queries) * static_cast<double>(asked.keys));
    const int64_t fitting = int64_t{problem.dim <= 32 ? 3 : 2} * device.multiprocessors;
    return static_cast<double>(blocks) * share < kFewTurns * static_cast<double>(fitting);
}

inline Rounds rounds_for(const Problem& problem, const Device& device, size_t bytes) {
    const RoundSizes sizes(problem);
    const int64_t floats = static_cast<int64_t>(bytes / sizeof(float));
    Rounds rounds{1, problem.queries, 1, false};
    const int64_t fitting = floats / sizes.of_unit(problem.queries);
    if (fitting >= 1) { // as even as they come
        const int64_t count = parts_of(problem.units(), std::min(fitting, problem.units()));
        rounds.units_at_once = parts_of(problem.units(), count);
    } else {
        int64_t slab = least_slab(problem);
        while (slab + kGroupRows < problem.queries &&
               sizes.of_unit(slab + kGroupRows) + 2 * sizes.key_totals() <= floats)
            slab += kGroupRows;
        rounds.slabs = parts_of(problem.queries, slab);
        rounds.slab_rows = std::min(whole_parts(parts_of(problem.queries, rounds.slabs), kGroupRows), problem.queries);
        rounds.slabs = parts_of(problem.queries, rounds.slab_rows);
    }
    rounds.apart = needs_sums_apart(problem, rounds, device);
    return rounds;
}

// What a launch needs.
inline size_t least_round_bytes(const Problem& problem) {
    const RoundSizes sizes(problem);
    const int64_t slab = least_slab(problem);
    return round_bytes(sizes, {1, slab, parts_of(problem.queries, slab), true});
}

// Beyond which more is of no use.
inline size_t most_round_bytes(const Problem& problem) {
    const RoundSizes sizes(problem);
    return round_bytes(sizes, {problem.units(), problem.queries, 1, true});
}

} // namespace hw4::gpu
