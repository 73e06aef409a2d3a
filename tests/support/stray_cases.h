// Cases in which one query row strays from where the contract's M is 0 and its clamp idle, or comes close to that.
//
// M is an integer, so sums relative to another M are the same numbers times a power of two: a kernel that missed the
// change would print the same bytes, unless something underflows. The values V are chosen so that it does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/attention_case.h"

namespace hw4 {

struct Stray {
    std::string name;
    int64_t row;               // the query row
    std::vector<float> units;  // its score for each key, in base-2 units; other rows have small scores
    std::vector<float> values; // magnitude of V by key
    bool shows;                // whether the bytes change when it is missed

    int64_t tokens() const { return static_cast<int64_t>(units.size()); }

    // From 1 to 2, with all bits of the mantissa in use, so that underflow loses some.
    static float mantissa(int64_t key, int64_t column) {
        const auto word = (static_cast<uint32_t>(key) * 2654435761u ^ static_cast<uint32_t>(column + 1) * 2246822519u);
        return 1.0f + static_cast<float>((word * 3266489917u) >> 9) * 0x1p-23f;
    }

    // Only column 0 of Q and K is used, so that a score is one product.
    void fill_batch(float* qkv, int64_t d) const {
        const int64_t n = tokens();
        const float unit = scale_for(d).inv_c;
        float* q = qkv;
        float* k = q + n * d;
        float* v = k + n * d;
        for (int64_t j = 0; j < n; ++j) {
            q[j * d] = j == row ? 1.0f : static_cast<float>(j % 5 - 2) * 0x1p-6f;
            k[j * d] = units[static_cast<size_t>(j)] * unit;
            for (int64_t x = 0; x < d; ++x) v[j * d + x] = values[static_cast<size_t>(j)] * mantissa(j, x);
        }
    }
};

inline std::string units_text(float units) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", double{units});
    return text;
}

// One key weighs as much as 2^units and its own value is 0: the other keys' contributions underflow when M follows.
inline Stray stray_high(int64_t n, int64_t row, int64_t key, float units, bool shows) {
    Stray stray{units_text(units) + " at key " + std::to_string(key) + ", row " + std::to_string(row), row,
                std::vector<float>(static_cast<size_t>(n), 0.0f), std::vector<float>(static_cast<size_t>(n), 0x1p-60f),
                shows};
    stray.units[static_cast<size_t>(key)] = units;
    stray.values[static_cast<size_t>(key)] = 0.0f;
    return stray;
}

// One key is so far below the others that the clamp lifts it, and it alone has a value.
inline Stray stray_deep(int64_t n, int64_t row, int64_t key, float units, bool shows) {
    Stray stray{units_text(units) + " at key " + std::to_string(key) + ", row " + std::to_string(row), row,
                std::vector<float>(static_cast<size_t>(n), 0.0f), std::vector<float>(static_cast<size_t>(n), 0.0f),
                shows};
    stray.units[static_cast<size_t>(key)] = units;
    stray.values[static_cast<size_t>(key)] = 0x1p30f;
    return stray;
}

// The first tile's largest score is `units`, later scores are `later`: the values underflow unless M starts lower.
inline Stray stray_low(int64_t n, int64_t row, float units, float later, bool shows) {
    Stray stray{"first tile at " + units_text(units) + ", then " + units_text(later) + ", row " + std::to_string(row),
                row, std::vector<float>(static_cast<size_t>(n), later),
                std::vector<float>(static_cast<size_t>(n), 0x1p-126f), shows};
    for (size_t j = 0; j < std::min<size_t>(kKeyTile, stray.units.size()); ++j) stray.units[j] = units;
    return stray;
}

// N keys of d columns: scores on both sides of every threshold, the contract's (72, -120, -8) and thresholds of kernels
// that stay one unit clear of them; the row in each warp of a block of 128 and in a ragged last block; the key in the
// first tile, a later one, a later segment.
inline std::vector<Stray> strays(int64_t n, int64_t d) {
    std::vector<int64_t> rows;
    for (const int64_t row : {int64_t{0}, int64_t{37}, int64_t{70}, int64_t{127}})
        if (row < n - 1 && (n <= 256 || row == 70)) rows.push_back(row);
    rows.push_back(n - 1);
    const int64_t keys[] = {1, n / 2, n - 1};
    const bool many = d > 1; // a single column may lose nothing by chance
    std::vector<Stray> found;
    for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t row = rows[i];
        size_t turn = i;
        const auto next_key = [&] { return keys[turn++ % 3]; };
        for (const float units : {70.5f, 71.5f}) found.push_back(stray_high(n, row, next_key(), units, false));
        if (many)
            for (const float units : {72.5f, 73.0f}) found.push_back(stray_high(n, row, next_key(), units, true));
        found.push_back(stray_high(n, row, next_key(), 90.0f, true));
        for (const float units : {-70.5f, -71.5f, -119.0f, -121.0f, -125.0f})
            found.push_back(stray_deep(n, row, next_key(), units, units < -120.0f));
        for (const float units : {-6.5f, -7.5f, -8.5f, -9.0f, -40.0f}) {
            const bool shows = units < -8.0f;
            const float later[] = {units, -20.0f, many ? -6.5f : units};
            found.push_back(stray_low(n, row, units, later[turn++ % 3], shows));
            // Keys of weight 1 hide a first tile of 2^-9 in all but a few cases.
            if (units >= -9.0f && (!shows || (many && n == 40))) found.push_back(stray_low(n, row, units, 0.0f, shows));
        }
        for (const float units : {-6.5f, -7.5f}) { // one key of the first tile is enough
            Stray stray = stray_low(n, row, -40.0f, -20.0f, false);
            stray.units[turn++ % std::min<size_t>(kKeyTile, stray.units.size())] = units;
            stray.name += ", one key at " + units_text(units);
            found.push_back(stray);
        }
    }
    return found;
}

// Each batch strays in its own way.
inline AttentionCase stray_case(const std::vector<Stray>& list, int64_t d) {
    return AttentionCase::filled({static_cast<int64_t>(list.size()), list[0].tokens(), d}, "from " + list[0].name,
                                 [&](float* qkv, int64_t b) { list[static_cast<size_t>(b)].fill_batch(qkv, d); });
}

// Every other batch strays, each in another way that shows.
inline AttentionCase stray_batches(int64_t batches, int64_t n, int64_t d) {
    std::vector<Stray> showing;
    for (const Stray& stray : strays(n, d))
        if (stray.shows) showing.push_back(stray);
    const Stray ordinary = stray_high(n, n / 2, n / 3, 1.0f, false);
    return AttentionCase::filled({batches, n, d}, "stray batches", [&](float* qkv, int64_t batch) {
        const Stray& stray = batch % 2 == 0 ? showing[static_cast<size_t>(batch / 2) % showing.size()] : ordinary;
        stray.fill_batch(qkv, d);
    });
}

} // namespace hw4
