// 2^x for weights of "fixed16" without a look-up in the contract's table, for processors with instructions that choose
// among 32 numbers in registers.
//
// In each of 32 segments of the fraction 2^x is a polynomial of degree 2. It is not always the table's float, but when
// rounded to a weight it is always the table's weight: the coefficients were searched for so that this holds for every
// exponent (Fixed16Weight.OfSegmentsIsTheTables).
#pragma once

#include <cstdint>

#include "src/contracts/fixed16/forward.h"

namespace hw4::cpu {

constexpr int kExp2Segments = 32;

// The coefficient of the square first.
struct Exp2Coefficients {
    alignas(64) float of[3][kExp2Segments];
};

constexpr Exp2Coefficients kExp2Coefficients = {
    {{0x1.f1503p-3f,  0x1.fc38cp-3f,  0x1.03b052p-2f, 0x1.095f66p-2f, 0x1.0f2892p-2f, 0x1.151c54p-2f, 0x1.1b297p-2f,
      0x1.215c84p-2f, 0x1.27b692p-2f, 0x1.2e2804p-2f, 0x1.34c76cp-2f, 0x1.3b89e6p-2f, 0x1.427c7ap-2f, 0x1.49838p-2f,
      0x1.50ba4ap-2f, 0x1.581e18p-2f, 0x1.5f9dcp-2f,  0x1.675608p-2f, 0x1.6f30dap-2f, 0x1.773c74p-2f, 0x1.7f7e02p-2f,
      0x1.888224p-2f, 0x1.907b12p-2f, 0x1.993702p-2f, 0x1.a23056p-2f, 0x1.ab4f22p-2f, 0x1.b4b70cp-2f, 0x1.be42cep-2f,
      0x1.c8023cp-2f, 0x1.d299eep-2f, 0x1.dc386ap-2f, 0x1.e69e92p-2f},
     {0x1.a8e074p-3f, 0x1.b2246ap-3f, 0x1.bb97f6p-3f, 0x1.c5513p-3f,  0x1.cf586ep-3f, 0x1.d96ea6p-3f, 0x1.e3ddf8p-3f,
      0x1.ee774ep-3f, 0x1.f93aecp-3f, 0x1.02363cp-2f, 0x1.07da62p-2f, 0x1.0da252p-2f, 0x1.1375fap-2f, 0x1.198fdep-2f,
      0x1.1fbafp-2f,  0x1.25ff42p-2f, 0x1.2c8248p-2f, 0x1.330c4p-2f,  0x1.39cc86p-2f, 0x1.40a90cp-2f, 0x1.479a1p-2f,
      0x1.4d84bcp-2f, 0x1.5615fap-2f, 0x1.5da5f6p-2f, 0x1.654704p-2f, 0x1.6d2cfap-2f, 0x1.75128p-2f,  0x1.7d469ep-2f,
      0x1.85ac7p-2f,  0x1.8cf8aep-2f, 0x1.96e164p-2f, 0x1.9fd936p-2f},
     {0x1.1973d8p-1f, 0x1.1f9ed4p-1f, 0x1.25eceap-1f, 0x1.2c5c3ep-1f, 0x1.32eca6p-1f, 0x1.39a716p-1f, 0x1.40831ap-1f,
      0x1.4787acp-1f, 0x1.4eb5cp-1f,  0x1.5605cap-1f, 0x1.5d83e4p-1f, 0x1.652afp-1f,  0x1.6d0226p-1f, 0x1.74fbcp-1f,
      0x1.7d266p-1f,  0x1.85812cp-1f, 0x1.8e03cep-1f, 0x1.96bd9ep-1f, 0x1.9fa3ep-1f,  0x1.a8be76p-1f, 0x1.b210a4p-1f,
      0x1.bbe39p-1f,  0x1.c549bp-1f,  0x1.cf31fcp-1f, 0x1.d9584ap-1f, 0x1.e3b0d2p-1f, 0x1.ee4eb8p-1f, 0x1.f91f68p-1f,
      0x1.0215e4p+0f, 0x1.07e4dp+0f,  0x1.0d848ap+0f, 0x1.136976p+0f}}};

constexpr int kSegmentBits = 18; // of a float's fraction, within a segment

// The vector operations of a lane, for one number.
struct Exp2Operations {
    static HW4_INLINE float coefficient(int i, uint32_t bits) {
        return kExp2Coefficients.of[i][bits >> kSegmentBits & (kExp2Segments - 1)];
    }
    // 1 plus the position of the fraction in its segment.
    static HW4_INLINE float within_segment(uint32_t bits) {
        return float_of((bits & ((1u << kSegmentBits) - 1)) | 0x3f800000u);
    }
    // The fraction of y with the sign and exponent of the bits.
    static HW4_INLINE float with_fraction(float y, uint32_t bits) {
        return float_of((bits_of(y) & 0x7fffffu) | (bits & 0xff800000u));
    }
};

// Approximates 2^n * 2^f, given the bits of the float 2^n * (1 + f), f a multiple of 2^-12.
template <class Operations, class Bits>
HW4_INLINE auto exp2_by_segments(Bits bits) {
    const auto g = Operations::within_segment(bits);
    const auto slope = fused(Operations::coefficient(0, bits), g, Operations::coefficient(1, bits));
    return Operations::with_fraction(fused(slope, g, Operations::coefficient(2, bits)), bits);
}

} // namespace hw4::cpu
