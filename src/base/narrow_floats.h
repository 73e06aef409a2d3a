// Floats of 16 bits, held in float32: what is stored in one is rounded to nearest even, as the hardware does.
#pragma once

#include <cmath>

#include "src/base/float_bits.h"

namespace hw4 {

// 8 bits of significand, the exponents of float32.
inline float rounded_to_bf16(float x) {
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return x; // NaN
    return float_of((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

// 11 bits of significand, up to 65504; below 2^-14 in units of 2^-24.
inline float rounded_to_fp16(float x) {
    if (x == 0 || !std::isfinite(x)) return x;
    constexpr int kLeastExponent = -14;
    const int exponent = std::ilogb(x) < kLeastExponent ? kLeastExponent : std::ilogb(x);
    const float rounded = std::ldexp(std::nearbyint(std::ldexp(x, 10 - exponent)), exponent - 10);
    return std::abs(rounded) > 65504.0f ? std::copysign(HUGE_VALF, x) : rounded;
}

} // namespace hw4
