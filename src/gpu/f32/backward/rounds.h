// How a launch that keeps pairs is cut into rounds, by the memory there is for them: as many units at once as fit, or,
// where not even one does, slabs of its query rows. Pure, so that it is tested without a GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/contracts/f32/asked_gradients.h"
#include "src/gpu/device.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

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
