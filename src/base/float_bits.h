// A float's bits and back, on both sides.
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

} // namespace hw4
