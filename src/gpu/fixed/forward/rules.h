// What kernels have to know of the contract that they compute under, fixed or fixed16, where the rest of their code is
// the same. No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdint>

#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"

namespace hw4::gpu::fixed_point {

// ---- What the pre-pass finds out about all tiles of a head of K and V

// The exponents of a head's tiles, of K or of V. Blocks put it together tile by tile, each with two maxima: both
// numbers are raised from 0, where there is no tile yet.
struct ExponentRange {
    static constexpr int kLeast = -114; // of all exponents, of two digits; of three -106
    static constexpr int kMost = 149;   // of three digits; of two 141

    uint32_t above; // how far above kLeast - 1 the largest is
    uint32_t below; // how far below kMost + 1 the smallest is

    static HW4_INLINE ExponentRange of(int exponent) {
        return {static_cast<uint32_t>(exponent - kLeast + 1), static_cast<uint32_t>(kMost + 1 - exponent)};
    }

    HW4_INLINE int largest() const { return static_cast<int>(above) + kLeast - 1; }
    HW4_INLINE int smallest() const { return kMost + 1 - static_cast<int>(below); }
    HW4_INLINE bool is_one() const { return largest() == smallest(); }
};

// Raised from 0, all of it. Aligned to be read in few pieces, all from one sector.
struct alignas(32) HeadFacts {
    ExponentRange k;
    ExponentRange v;
    float longest_key; // at least every key's length; for choosing code, never for bytes
};

// Whether scores count the same in all tiles, and values too, and no score of rows of Q whose largest exponent this is
// is finer than scores are taken. Never with a row of zeros, whose exponent is the largest of all, unless K is huge.
HW4_INLINE bool is_steady(const HeadFacts& head, int finest_row) {
    return head.k.is_one() && head.v.is_one() && finest_row + head.k.largest() - 24 <= fixed::kMostBits;
}

// ---- The rules of either contract

// The rules of fixed.
struct ThreeDigits {
    static constexpr int kDigits = fixed::kDigits;
    static constexpr int kTileKeys = fixed::kTileKeys;
    static constexpr bool kNeedsLengths = true; // of queries and keys, which tell how far scores may lie apart
    static constexpr bool kTakesNarrow = false; // operands of 16 bits too

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
