// What kernels have to know of the contract that they compute under, fixed or fixed16, where the rest of their code is
// the same. No CUDA here, so that it can be tested anywhere.
#pragma once

#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"
#include "src/gpu/fixed/forward/head_facts.h"

namespace hw4::gpu::fixed_point {

// Of fixed.
struct ThreeDigits {
    static constexpr int kDigits = fixed::kDigits;
    static constexpr int kTileKeys = fixed::kTileKeys;
    static constexpr bool kNeedsLengths = true; // of queries and keys, which tell how far scores may lie apart
    static constexpr bool kTakesNarrow = false; // operands of 16 bits too

    static HW4_INLINE int row_exponent(float largest, const HeadFacts&) { return fixed::exponent_for(largest); }
};

// Of fixed16.
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
