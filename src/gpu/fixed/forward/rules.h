// The differences between the contracts fixed and fixed16, for kernels with the same code otherwise. No CUDA here, so
// that it can be tested anywhere.
#pragma once

#include <cstdint>

#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"

namespace hw4::gpu::fixed_point {

// ---- Facts that the pre-pass collects about all tiles of a head of K and V

// The exponents of a head's tiles, of K or of V. Blocks update it tile by tile, each with two maxima: both numbers are
// raised from 0, which means that there is no tile yet.
struct ExponentRange {
    static constexpr int kLeast = -114; // of all exponents with two digits; with three -106
    static constexpr int kMost = 149;   // with three digits; with two 141

    uint32_t above; // the largest, minus (kLeast - 1)
    uint32_t below; // kMost + 1, minus the smallest

    static HW4_INLINE ExponentRange of(int exponent) {
        return {static_cast<uint32_t>(exponent - kLeast + 1), static_cast<uint32_t>(kMost + 1 - exponent)};
    }

    HW4_INLINE int largest() const { return static_cast<int>(above) + kLeast - 1; }
    HW4_INLINE int smallest() const { return kMost + 1 - static_cast<int>(below); }
    HW4_INLINE bool is_one() const { return largest() == smallest(); }
};

// All members are raised from 0. Aligned so that loads need few pieces, all from one sector.
struct alignas(32) HeadFacts {
    ExponentRange k;
    ExponentRange v;
    float longest_key; // an upper bound of every key's length; for choosing code, never for bytes
};

// Whether scores have the same unit in all tiles, and values too, and no score of rows of Q with this largest exponent
// is finer than the least unit. Never with a row of zeros, which has the largest exponent of all, unless K is huge.
HW4_INLINE bool is_steady(const HeadFacts& head, int finest_row) {
    return head.k.is_one() && head.v.is_one() && finest_row + head.k.largest() - 24 <= fixed::kMostBits;
}

// ---- The rules of the two contracts

// The rules of fixed.
struct ThreeDigits {
    static constexpr int kDigits = fixed::kDigits;
    static constexpr int kTileKeys = fixed::kTileKeys;
    static constexpr bool kNeedsLengths = true; // of queries and keys, which bound the distances of scores
    static constexpr bool kTakesNarrow = false; // whether tensors may have 16-bit elements

    static HW4_INLINE int row_exponent(float largest, const HeadFacts&) { return fixed::exponent_for(largest); }
};

// The rules of fixed16.
struct TwoDigits {
    static constexpr int kDigits = fixed16::kDigits;
    static constexpr int kTileKeys = fixed16::kTileKeys;
    static constexpr bool kNeedsLengths = false;
    static constexpr bool kTakesNarrow = true;

    static HW4_INLINE int row_exponent(float largest, const HeadFacts& facts) {
        return fixed16::row_exponent(largest, facts.k.smallest());
    }
};

} // namespace hw4::gpu::fixed_point
