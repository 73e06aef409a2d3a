// A float's bits and back, for host and device code. 16-bit floats: their bits, and the conversion from float32,
// rounded to nearest even, as in hardware. bf16 has the exponents of float32 and 8 bits of significand; fp16 has 11
// bits and ends at 65504, with denormals below 2^-14 in units of 2^-24.
#pragma once

#include <cstdint>
#include <cstring>

#include "src/base/inline.h"

namespace hw4 {

HW4_INLINE uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    uint32_t u = 0;
    std::memcpy(&u, &x, sizeof u);
    return u;
#endif
}

HW4_INLINE float float_of(uint32_t u) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(u);
#else
    float x = 0.0f;
    std::memcpy(&x, &u, sizeof x);
    return x;
#endif
}

// ---- 16 bits

// The least magnitudes that are rounded to infinity.
constexpr float kBf16Overflow = 0x1.ffp127f;
constexpr float kFp16Overflow = 65520.0f;

HW4_INLINE uint16_t bf16_bits(float x) {
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u); // NaN stays NaN
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

HW4_INLINE float bf16_value(uint16_t bits) { return float_of(uint32_t{bits} << 16); }

HW4_INLINE uint16_t fp16_bits(float x) {
    constexpr uint32_t kOverflow = 0x477ff000u;    // kFp16Overflow
    constexpr uint32_t kLeastNormal = 0x38800000u; // 2^-14
    constexpr uint32_t kBias = (127u - 15u) << 23;
    const uint32_t sign = bits_of(x) >> 16 & 0x8000u;
    const uint32_t magnitude = bits_of(x) & 0x7fffffffu;
    const auto with_sign = [&](uint32_t bits) { return static_cast<uint16_t>(sign | bits); };
    if (magnitude > 0x7f800000u) return with_sign(0x7e00u); // NaN
    if (magnitude >= kOverflow) return with_sign(0x7c00u);
    if (magnitude >= kLeastNormal) return with_sign((magnitude - kBias + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
    // From 1/2 on floats are 2^-24 apart: the addition rounds.
    return with_sign(bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
}

HW4_INLINE float fp16_value(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t magnitude = (bits & 0x7fffu) << 13;
    if (magnitude >= 0x7c00u << 13) return float_of(sign | 0x7f800000u | magnitude); // infinity, NaN
    return float_of(sign | bits_of(float_of(magnitude) * 0x1p112f));                 // exact, also for denormals
}

HW4_INLINE float rounded_to_bf16(float x) { return bf16_value(bf16_bits(x)); }
HW4_INLINE float rounded_to_fp16(float x) { return fp16_value(fp16_bits(x)); }

} // namespace hw4
