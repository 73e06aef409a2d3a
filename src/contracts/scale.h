// The factor of the scores: 1/sqrt(d), or a number that the problem gives. f32/forward.h says for which numbers the
// arithmetic is defined.
//
// Computed on the host only (double sqrt, multiplication and division are correctly rounded everywhere) and passed to
// kernels as values.
#pragma once

#include <cmath>
#include <cstdint>

namespace hw4 {

constexpr double kLeastScale = 0x1p-100;
constexpr double kMostScale = 0x1p100;

// Whether the scale is 1/sqrt(d): 0, or a number with the same nearest float as 1/sqrt(d), as callers compute it.
inline bool is_usual_scale(int64_t d, double scale) {
    return scale == 0 || static_cast<float>(scale) == static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
}

// c = log2(e) * scale and its inverse, for head size d. A scale of 0 is 1/sqrt(d).
struct Scale {
    float c;
    float inv_c;
};

inline Scale scale_for(int64_t d, double scale = 0) {
    const double log2_e = 0x1.71547652b82fep+0;
    if (!is_usual_scale(d, scale))
        return {static_cast<float>(log2_e * scale), static_cast<float>(1 / (log2_e * scale))};
    const double root = std::sqrt(static_cast<double>(d));
    return {static_cast<float>(log2_e / root), static_cast<float>(root / log2_e)};
}

// The scale as a float, the factor of dQ and dK.
inline float gradient_scale_for(int64_t d, double scale = 0) {
    return static_cast<float>(is_usual_scale(d, scale) ? 1.0 / std::sqrt(static_cast<double>(d)) : scale);
}

} // namespace hw4
