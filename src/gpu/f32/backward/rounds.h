// How kept_pairs divides its work: the pieces that blocks draw, and the rounds that fit in memory. No CUDA here, so
// that it can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/inline.h"
#include "src/contracts/f32/asked_gradients.h"
#include "src/gpu/device.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

// ---- How the blocks that form pairs divide the work. A row of tiles is a block of query rows against the keys that
// they see; blocks draw pieces of such rows from a queue until none is left. Pieces are independent, so a row may be
// cut anywhere: long pieces come first, since each piece starts by loading its rows of Q and dO, and short ones last,
// so that all multiprocessors end together.

struct PairPiece {
    uint32_t row; // of tiles
    uint32_t first_tile;
    uint32_t end_tile; // may be beyond the row's last tile, and so may first_tile
};

struct PairQueue {
    uint32_t rows;
    uint32_t long_rows; // first in the queue
    uint32_t long_tiles;
    uint32_t long_pieces; // in each of them
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

// `rows` rows of up to `tiles` tiles, of which the fraction `share` exists (under a mask), on `blocks` blocks. If rows
// differ in length, the longest come first; the last are as short as pieces.
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

// ---- How a launch that keeps pairs is divided into rounds that fit in memory: as many units at once as fit or, if not
// even one fits, slabs of its query rows.

constexpr int64_t kPaddedRows = 128; // pairs, and sums, come in blocks of so many query rows
constexpr int64_t kPaddedKeys = 64;  // and in tiles of so many keys

inline int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
inline int64_t whole_parts(int64_t whole, int64_t part) { return parts_of(whole, part) * part; }

// The memory of a launch, in floats. Here and below, for a part of backward the problem is that of its rows
// (AskedGradients::of_rows).
struct RoundSizes {
    AskedGradients asked;
    int64_t key_tiles;  // in a row of tiles
    int64_t part_row;   // in a row of sums
    int64_t keys;       // in a unit
    int64_t key_groups; // in a unit
    bool in_parts;      // groups may have to be summed separately

    explicit RoundSizes(const Problem& problem)
        : asked(problem), key_tiles(parts_of(asked.keys, kPaddedKeys)),
          part_row(whole_parts(problem.dim, problem.dim <= 32 ? 32 : 64)), keys(asked.keys),
          key_groups(parts_of(keys, kGroupRows)),
          in_parts((asked.gives_dq && keys > kGroupRows) ||
                   (asked.gives_dk_dv && (problem.heads != problem.kv_heads || problem.queries > kGroupRows))) {}

    int64_t pairs(int64_t rows) const { // for P, and for dS
        return whole_parts(rows, kPaddedRows) * key_tiles * kPaddedKeys;
    }
    int64_t query_parts(int64_t rows) const { return asked.gives_dq ? key_groups * rows * part_row : 0; }
    int64_t key_parts(int64_t rows) const { return parts_of(rows, kGroupRows) * key_totals(); } // for dK, and for dV
    int64_t key_totals() const { return asked.gives_dk_dv ? keys * part_row : 0; }
    int64_t of_unit(int64_t rows) const {
        return 2 * pairs(rows) + (in_parts ? query_parts(rows) + 2 * key_parts(rows) : 0);
    }
};

struct Rounds {
    int64_t units_at_once;
    int64_t slab_rows; // of a unit; fewer than all its rows only if units_at_once is 1
    int64_t slabs;     // in a unit
    bool apart;        // groups are summed separately and joined afterwards
};

// In bytes; a huge number if no GPU could hold it.
inline size_t round_bytes(const RoundSizes& sizes, const Rounds& rounds) {
    constexpr int64_t kMost = int64_t{1} << 60;
    const int64_t unit = sizes.of_unit(rounds.slab_rows);
    if (unit > kMost / rounds.units_at_once) return static_cast<size_t>(kMost) * sizeof(float);
    const int64_t totals = rounds.slabs > 1 ? 2 * sizes.key_totals() : 0;
    return static_cast<size_t>(rounds.units_at_once * unit + totals) * sizeof(float);
}

inline int64_t least_slab(const Problem& problem) { return std::min<int64_t>(problem.queries, kGroupRows); }

// There should be at least as many blocks of sums as run at once, better several times as many; otherwise the last ones
// leave most of the GPU idle. Cutting sums at their groups makes more blocks, for memory and a kernel that joins.
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
    if (fitting >= 1) { // as even as possible
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

// The least that a launch needs.
inline size_t least_round_bytes(const Problem& problem) {
    const RoundSizes sizes(problem);
    const int64_t slab = least_slab(problem);
    return round_bytes(sizes, {1, slab, parts_of(problem.queries, slab), true});
}

// More than this does not help.
inline size_t most_round_bytes(const Problem& problem) {
    const RoundSizes sizes(problem);
    return round_bytes(sizes, {problem.units(), problem.queries, 1, true});
}

} // namespace hw4::gpu
