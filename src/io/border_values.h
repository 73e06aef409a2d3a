// The numbers of the kinds "threshold" and "digits": scores that meet the thresholds of a contract exactly.
//
// Row i of Q is zero except for column i mod d, so its scores are that column of K times one number: each column is one
// row's story, within three steps of a threshold, on either side. The thresholds are written here as numbers, not taken
// from the contract: a case must not change when a contract does. Only the scales are the contract's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/contracts/f32/forward.h"
#include "src/contracts/fixed/forward.h"
#include "src/problem/problem.h"

namespace hw4::borders {

// A number of a case.
struct Position {
    size_t batch;
    char matrix; // 'Q', 'K', 'V' or another
    int64_t row;
    int64_t column;
};

// A row's scores in base-2 units. One key of each tile matters: in tile `tile` its score is `at`; in the first tile,
// where it is another one, `first`. All other keys are at `others` or up to a unit below.
struct Story {
    float others;
    float first;
    int tile;
    float at;
    int power; // Q times this power of two, K divided by it
};

constexpr int64_t kTellingKey = 5;
constexpr std::array<int, 7> kStepsAway = {0, 1, -1, 2, -2, 3, -3};

// The float that is this many floats above x, which is not 0.
inline float moved(float x, int floats) {
    const auto bits = static_cast<int32_t>(bits_of(x));
    return float_of(static_cast<uint32_t>(x < 0 ? bits - floats : bits + floats));
}

inline int steps_away(size_t turn) { return kStepsAway[turn % kStepsAway.size()]; }

// From 1 to 2, with all bits of the mantissa in use, so that underflow loses some.
inline float mantissa(uint64_t word) { return float_of(0x3f800000u | static_cast<uint32_t>(word >> 41)); }

inline float two_to(int exponent) { return fixed::power(exponent); }

inline bool is_at_border(const Story& story, int64_t key, int64_t tile_keys) {
    return key % tile_keys == kTellingKey && key / tile_keys == story.tile;
}

// The score of another key, up to `below` under the others.
inline float other_score(const Story& story, int64_t key, float below, uint64_t word) {
    return key == kTellingKey ? story.first : story.others - below * 0.125f * static_cast<float>(word >> 61);
}

// ---- "threshold": the contract f32, which takes keys in tiles of 32 and segments of 64

constexpr float kReach = 0x1p21f;

constexpr std::array<Story, 18> kThresholdStories = {{
    {-20, 0, 0, -8, 0}, // the first tile's largest score: M is 0 from here,
    {0, 0, 0, 72, 0},   // up to here,
    {kReach - 3, 0, 0, kReach, 1},
    {-kReach - 3, 0, 0, -kReach, -1}, // and here M does not exist
    {-1, 0, 1, 72, 0},                // a raise within a segment, from M = 0
    {-1, 0, 2, 72, 2},                // and at its start
    {99, 100, 1, 172, -1},            // from another M
    {99, 100, 2, 172, 0},
    {-41, -40, 1, 32, 0},
    {-41, -40, 4, 32, 1},
    {-31, -30, 1, 96.5f, 0}, // M rises by 126 or 127: the factor is 2^-126 or 0
    {-31, -30, 2, 96.5f, -2},
    {0, 0.5f, 1, -120, 0}, // the deepest weight
    {99, 100, 2, -20, 0},
    {0, 0.5f, 1, -125, 0},                          // below the deepest weight
    {2 * kReach - 9, 2 * kReach, 1, 2 * kReach, 0}, // a raise of the origin
    {-kReach - 43, -kReach - 40, 1, -kReach, 0},    // from an origin to M
    {kReach - 75, kReach - 72, 1, kReach, 0},       // from M to an origin
}};

// The sums that underflow into the denormals depend on the magnitude of the values, and on the keys.
inline float threshold_v(const Position& at, uint64_t word) {
    const bool tells = at.row % 32 == kTellingKey;
    switch (at.column % 5) {
    case 0: return tells ? 0.0f : two_to(-60) * mantissa(word);
    case 1: return two_to(-126) * mantissa(word);
    case 2: return at.row < 32 ? two_to(40) * mantissa(word) : 0.0f;
    case 3: return tells && at.row / 32 == 1 ? two_to(30) * mantissa(word) : 0.0f;
    default: return tells && at.row / 32 == 2 ? two_to(30) * mantissa(word) : 0.0f;
    }
}

inline float threshold_value(const Problem& problem, const Position& at, uint64_t word) {
    if (at.matrix == 'V') return threshold_v(at, word);
    const size_t column = at.batch * static_cast<size_t>(problem.dim) + static_cast<size_t>(at.column);
    const Story& story = kThresholdStories[column % kThresholdStories.size()];
    if (at.matrix == 'Q') return at.row % problem.dim == at.column ? two_to(story.power) : 0.0f;
    const float unit = scale_for(problem.dim).inv_c;
    const float score = is_at_border(story, at.row, 32)
                            ? moved(story.at * unit, steps_away(column / kThresholdStories.size()))
                            : other_score(story, at.row, 1, word) * unit;
    return score * two_to(-story.power);
}

// ---- "digits": the contract fixed, which takes keys in tiles of 64
//
// The last column of K has the largest number of each tile, where the tile's exponent changes, about 2^2. A row's
// 2^power then determines how many bits of fraction its scores have: 19 - power.

constexpr std::array<Story, 18> kDigitsStories = {{
    {-3, 0, 0, 0.5f, 4},  // a tile's largest score at a quarter,
    {-23.5f, 0, 0, 1, 4}, // an integer, where other weights are one unit or none,
    {-3, 0, 0, -0.25f, 2},
    {0.125f, 0, 0, 0.25f, -3}, // 22, 23 and 24 bits of fraction; more are cut off
    {0, 0, 0, 0.1875f, -4},
    {0, 0, 0, 0.0625f, -5},
    {0, 0, 0, 0x1p-12f, -12},
    {0, 0, 0, 0x1p-40f, -40},
    {0x3p16f, 0, 0, 0x3p16f + 2, 17}, // 2 bits, 1 and none
    {0x3p17f, 0, 0, 0x3p17f + 2, 18},
    {0x3p18f, 0, 0, 0x3p18f + 2, 19},
    {0x3p19f, 0, 0, 0x3p19f + 4, 20}, // scores in units of one, two, four and more
    {-0x3p20f, 0, 0, 8 - 0x3p20f, 21},
    {0x3p25f, 0, 1, 0x3p25f + 128, 26},
    {-61, -60, 1, 67, 5}, // R rises by 126 or 127
    {-61, -60, 2, 67, 5},
    {-1, 0.5f, 1, 31, 4}, // by 31; by 30 R does not rise
    {-41, -39.5f, 2, -9, 4},
}};

constexpr float kLargestNumber = 0x7f7f7fp0f; // of three digits
constexpr float kNumberStep = 0x1p-20f; // of a key: two of a tile's numbers, half of the least that a score counts

// The largest number of a tile.
inline float turning_number(size_t tile) { return moved(kLargestNumber / fixed::kWiden, steps_away(tile)); }

inline float digits_q(const Problem& problem, const Position& at, const Story& story) {
    if (at.row % problem.dim != at.column || at.column + 1 == problem.dim) return 0.0f; // some rows contain only zeros
    const float factor = fixed::query_factor(scale_for(problem.dim).c);
    const bool turns = at.row / problem.dim % 2 == 1;
    const float number =
        turns ? moved(kLargestNumber / factor, steps_away(static_cast<size_t>(at.row))) : 0x1p22f / factor;
    return number * two_to(story.power - 22);
}

// Tiles of very different magnitudes: beside the first tile's sums, another's count 2^-126 times or not at all.
inline float digits_v(const Position& at, uint64_t word) {
    constexpr std::array<int, 4> kPowers = {0, -126, -127, -63};
    const auto tile = static_cast<size_t>(at.row / 64);
    const auto column = static_cast<size_t>(at.column);
    if (column % 4 != 3 && column % 4 != tile % 3) return 0.0f;
    const float number = at.row % 64 == 0 ? turning_number(tile + 3 * at.batch) : two_to(21) * mantissa(word);
    return (word % 2 == 0 ? number : -number) * two_to(kPowers[tile % kPowers.size()]);
}

inline float digits_value(const Problem& problem, const Position& at, uint64_t word) {
    if (at.matrix == 'V') return digits_v(at, word);
    const auto tile = static_cast<size_t>(at.row / 64);
    if (at.matrix == 'K' && at.column + 1 == problem.dim)
        return at.row % 64 == 0 ? turning_number(tile + at.batch) * two_to(-21) : 0.0f;
    const size_t column = at.batch * static_cast<size_t>(problem.dim - 1) + static_cast<size_t>(at.column);
    const Story& story = kDigitsStories[column % kDigitsStories.size()];
    if (at.matrix == 'Q') return digits_q(problem, at, story);
    const float below = story.power < 0 ? two_to(story.power) : story.power > 17 ? two_to(story.power - 17) : 1.0f;
    const float number = is_at_border(story, at.row, 64)
                             ? story.at * two_to(-story.power) +
                                   kNumberStep * static_cast<float>(steps_away(column / kDigitsStories.size()))
                             : other_score(story, at.row, below, word) * two_to(-story.power);
    return number / fixed::kWiden;
}

} // namespace hw4::borders
