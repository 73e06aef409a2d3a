// What the pre-pass finds out about all tiles of a head of K and V. No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdint>

#include "src/contracts/fixed/forward.h"

namespace hw4::gpu::fixed_point {

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

} // namespace hw4::gpu::fixed_point
