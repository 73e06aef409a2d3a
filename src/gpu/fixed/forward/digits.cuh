// Numbers to digits, and four numbers' digits to a word for each place.
#pragma once

#include "src/gpu/common/warp.cuh"
#include "src/gpu/fixed/forward/layout.h"

namespace hw4::gpu::fixed_point {

// The bytes of four words by place: word 2 has the bytes 2 of all four.
template <int kDigits>
struct Planes {
    uint32_t word[kDigits];

    // The first plane's word goes there, the others' so many bytes further on each.
    __device__ __forceinline__ void store(unsigned char* to, int plane_bytes) const {
#pragma unroll
        for (int plane = 0; plane < kDigits; ++plane)
            *reinterpret_cast<uint32_t*>(to + plane * plane_bytes) = word[plane];
    }
};

template <int kDigits>
__device__ __forceinline__ Planes<kDigits> planes_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint32_t low_ab = __byte_perm(a, b, 0x5140); // a0 b0 a1 b1
    const uint32_t low_cd = __byte_perm(c, d, 0x5140);
    Planes<kDigits> planes;
    planes.word[0] = __byte_perm(low_ab, low_cd, 0x5410);
    planes.word[1] = __byte_perm(low_ab, low_cd, 0x7632);
    if constexpr (kDigits == 3) {
        const uint32_t high_ab = __byte_perm(a, b, 0x0062); // a2 b2
        const uint32_t high_cd = __byte_perm(c, d, 0x0062);
        planes.word[2] = __byte_perm(high_ab, high_cd, 0x5410);
    }
    return planes;
}

// Of two digits in the lower half of the word, without a conversion to an integer, of which a multiprocessor does few
// at a time. For rows of Q, between products, most kernels lose more by it, in registers, than they gain.
template <int kDigits>
__device__ __forceinline__ uint32_t biased_digits_at(float x, fixed::Factors scale) {
    if constexpr (kDigits == 2) return fixed::two_biased_digits(x, scale);
    return fixed::Numbers<kDigits>::biased_digits(fixed::quantised(x, scale));
}

// The digits of four numbers by place; the bias of all four goes at once.
template <int kDigits>
__device__ __forceinline__ Planes<kDigits> planes_of_biased(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    Planes<kDigits> planes = planes_of<kDigits>(a, b, c, d);
#pragma unroll
    for (uint32_t& word : planes.word) word ^= 0x80808080u;
    return planes;
}

// Of four numbers, whose biased digits `digits` gives.
template <int kDigits, class Digits>
__device__ __forceinline__ Planes<kDigits> planes_of(float4 x, const Digits& digits) {
    return planes_of_biased<kDigits>(digits(x.x), digits(x.y), digits(x.z), digits(x.w));
}

// Of kRows numbers in each of kLanes neighbours, combined over them row by row: a lane gets that of one row,
// lane % kLanes / (kLanes / kRows), for which fewer numbers change hands than if every lane got all.
template <int kLanes, int kRows, class Combine>
__device__ __forceinline__ float combined_row(float (&x)[kRows], const Combine& combine) {
    static_assert(kRows <= kLanes);
    int rows = kRows;
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
        const bool upper = (threadIdx.x & static_cast<unsigned>(lanes)) != 0;
        const bool halved = rows > 1;
        rows = halved ? rows / 2 : 1;
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const float keep = halved && upper ? x[row + rows] : x[row];
            const float give = halved && !upper ? x[row + rows] : x[row];
            x[row] = combine(keep, __shfl_xor_sync(~0u, give, lanes));
        }
    }
    return x[0];
}

// The largest magnitude of four numbers, and of others so far.
__device__ __forceinline__ float larger_magnitude(float4 x, float largest) {
    return fmaxf(fmaxf(largest, fmaxf(fabsf(x.x), fabsf(x.y))), fmaxf(fabsf(x.z), fabsf(x.w)));
}

// The sum of four squares, and of others so far. For choosing code, never for bytes.
__device__ __forceinline__ float added_squares(float4 x, float sum) {
    return fused(x.x, x.x, fused(x.y, x.y, fused(x.z, x.z, fused(x.w, x.w, sum))));
}

// At least the length of every vector of up to 256 numbers whose sum of squares came out as at most `square`. Rounding
// costs less than a thousandth, and squares that vanish less than 2^-70: a thousandth too, or below the least bound.
__device__ __forceinline__ float length_bound(float square) { return fmaxf(sqrtf(square) * 1.001f, 0x1p-56f); }

} // namespace hw4::gpu::fixed_point
