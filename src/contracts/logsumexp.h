// A row's logsumexp, the natural logarithm of the sum of exp(score * scale) over the keys that the row sees, from its
// statistics: ln2 * (M + c * origin + log2(l)). The host and the GPU compute it with these functions, so its bytes
// follow from the bytes of the statistics. It is part of every contract: another logarithm means another revision of
// forward.
//
// Computed in doubles, with additions, multiplications and divisions only, which every machine rounds alike. If numbers
// cancel, or one is huge, no bit is lost that a float could hold; c * origin is exact. The float is within 0.5001 units
// in its last place and 2^-52 * |M| of the exact logsumexp of the statistics.
#pragma once

#include <cmath>

#include "src/contracts/f32/forward.h"
#include "src/contracts/row_statistics.h"

namespace hw4 {

// log2 of a positive number: the exponent plus, with s = (m - 1) / (m + 1), 2/ln2 * atanh(s) up to s^17: exact for
// powers of two, elsewhere within 2^-48 of itself.
HW4_INLINE double log2_of(double x) {
    int exponent = 0;
    double mantissa = frexp(x, &exponent);
    if (mantissa < 0x1.6a09e667f3bcdp-1) { // 1/sqrt(2)
        mantissa *= 2;
        --exponent;
    }
    const double s = (mantissa - 1) / (mantissa + 1); // from -0.172 to 0.172
    const double square = s * s;
    double sum = 0;
    for (int power = 17; power > 0; power -= 2) sum = sum * square + 1.0 / power;
    return exponent + 0x1.71547652b82fep+1 * s * sum;
}

// `one` is what a weight of 1 adds to l.
HW4_INLINE float logsumexp(const RowStatistics& row, Scale scale, double one) {
    if (row.l == 0) return -HUGE_VALF;
    const double c = scale.c;
    return static_cast<float>(0x1.62e42fefa39efp-1 * (row.M + c * row.origin + log2_of(row.l / one)));
}

} // namespace hw4
