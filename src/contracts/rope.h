// Rotary position embedding (RoPE): the rotation of two columns of a row, and the table of cosines and sines. It
// defines the bytes of hw4_append(), so the host and the GPU compile it without contraction.
#pragma once

#include <cmath>

#include "src/contracts/logsumexp.h"

namespace hw4 {

struct Rotated {
    float x, y;
};

HW4_INLINE Rotated rotate(float a, float b, float cosine, float sine) {
    return {fused(a, cosine, -(b * sine)), fused(a, sine, b * cosine)};
}

// The host computes the table in doubles with + - * / only, which every machine rounds alike. The doubles are within
// 2^-30 of the exact values: at the last positions, angles near 2^20 are rounded to multiples of 2^-33.
constexpr double kMostRopeTheta = 1e12;
constexpr int64_t kMostRopePositions = int64_t{1} << 20; // the angle's multiple of pi/2 has to be exact
constexpr int64_t kMostRopeColumns = int64_t{1} << 16;

inline double exp2_of(double x) {
    const double whole = (x + 0x1.8p52) - 0x1.8p52;
    const double f = (x - whole) * 0x1.62e42fefa39efp-1; // ln2
    double sum = 1;
    for (int k = 16; k >= 1; --k) sum = 1 + f * sum / k;
    return std::ldexp(sum, static_cast<int>(whole));
}

// The Taylor series of both, after subtracting the multiple of pi/2 from the angle in parts of 33, 33 and 53 bits.
inline void sine_cosine(double angle, double& sine, double& cosine) {
    const double whole = (angle * 0x1.45f306dc9c883p-1 + 0x1.8p52) - 0x1.8p52;
    const double r = ((angle - whole * 0x1.921fb544p+0) - whole * 0x1.0b4611a6p-34) - whole * 0x1.3198a2e037073p-69;
    const double square = r * r;
    double s = 1;
    double c = 1;
    for (int k = 20; k >= 2; k -= 2) {
        c = 1 - square * c / (double(k) * (k - 1));
        s = 1 - square * s / (double(k) * (k + 1));
    }
    s = r * s;
    const auto quarter = static_cast<int>(static_cast<int64_t>(whole) & 3);
    sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
    cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}

// [position][pair][2]: cosine and sine of position * theta^(-2 * pair / dim).
inline void fill_rope_table(double theta, int64_t positions, int64_t dim, float* table) {
    const double log2_theta = log2_of(theta);
    for (int64_t pair = 0; pair < dim / 2; ++pair) {
        const double frequency = exp2_of(-(2.0 * static_cast<double>(pair) / static_cast<double>(dim)) * log2_theta);
        for (int64_t position = 0; position < positions; ++position) {
            double sine = 0;
            double cosine = 0;
            sine_cosine(static_cast<double>(position) * frequency, sine, cosine);
            table[position * dim + 2 * pair] = static_cast<float>(cosine);
            table[position * dim + 2 * pair + 1] = static_cast<float>(sine);
        }
    }
}

} // namespace hw4
