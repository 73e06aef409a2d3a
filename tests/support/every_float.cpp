#include "tests/support/every_float.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "src/contracts/f32/forward.h"
#include "src/contracts/fma_clones.h"

namespace hw4 {
namespace {

// Reciprocals of 10! to 0!: the 11th power of x adds less than 1e-12 for x up to ln(2)/2.
constexpr double kTerms[] = {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                             1.0 / 24,      1.0 / 6,      0.5,         1.0,        1.0};
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kRoundToWhole = 0x1.8p52;

// 2^x with only a few roundings; without branches and calls, so that a loop over it is vectorized.
HW4_INLINE double exact_exp2(double x) {
    const double t = x + kRoundToWhole;
    const double y = (x - (t - kRoundToWhole)) * kLn2;
    double power = 0;
    for (const double term : kTerms) power = power * y + term;
    uint64_t whole = 0; // the integer is in its lowest bits
    std::memcpy(&whole, &t, sizeof whole);
    const uint64_t bits = (whole + 1023) << 52;
    double scale = 0;
    std::memcpy(&scale, &bits, sizeof scale);
    return power * scale;
}

HW4_INLINE float exp2_of(uint32_t u) { return exp2_scaled(float_of(u), 1.0f, kRoundToInt); }

HW4_INLINE double error_of(uint32_t u) {
    const double exact = exact_exp2(static_cast<double>(float_of(u)));
    return std::fabs(static_cast<double>(exp2_of(u)) - exact) / exact;
}

} // namespace

HW4_FMA_CLONES double largest_exp2_error(uint32_t first, uint32_t last) {
    std::array<double, 8> worst{}; // in parallel, as a single maximum would be a serial chain
    uint32_t u = first;
    for (; last - u >= worst.size(); u += worst.size())
        for (uint32_t i = 0; i < worst.size(); ++i) {
            const double error = error_of(u + i);
            worst[i] = worst[i] < error ? error : worst[i];
        }
    for (; u < last; ++u) worst[0] = std::max(worst[0], error_of(u));
    return *std::max_element(worst.begin(), worst.end());
}

HW4_FMA_CLONES double exp2_differences_from_one(uint32_t first, uint32_t last, uint32_t step) {
    uint32_t different = 0;
    for (uint32_t u = first; u < last; u += step) different += exp2_of(u) != 1.0f;
    return different;
}

} // namespace hw4
