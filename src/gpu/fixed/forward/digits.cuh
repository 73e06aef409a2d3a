// Turns numbers into digits, and packs four numbers' digits into a word for each place.
#pragma once

#include "src/gpu/common/warp.cuh"
#include "src/gpu/fixed/forward/layout.h"

namespace hw4::gpu::fixed_point {

// The bytes of four words by place: word 2 has the bytes 2 of all four.
template <int kDigits>
struct Planes {
    uint32_t word[kDigits];

    // Stores the first plane's word at `to`, and each further plane's `plane_bytes` further on.
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

// Two digits are in the lower half of the word, without a conversion to an integer, which has low throughput. For rows
// of Q, between products, most kernels lose more by this, in registers, than they gain.
template <int kDigits>
__device__ __forceinline__ uint32_t biased_digits_at(float x, fixed::Factors scale) {
    if constexpr (kDigits == 2) return fixed::two_biased_digits(x, scale);
    return fixed::Numbers<kDigits>::biased_digits(fixed::quantised(x, scale));
}

// The digits of four numbers by place; the bias of all four is removed at once.
template <int kDigits>
__device__ __forceinline__ Planes<kDigits> planes_of_biased(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    Planes<kDigits> planes = planes_of<kDigits>(a, b, c, d);
#pragma unroll
    for (uint32_t& word : planes.word) word ^= 0x80808080u;
    return planes;
}

// The same for four numbers; `digits` gives their biased digits.
template <int kDigits, class Digits>
__device__ __forceinline__ Planes<kDigits> planes_of(float4 x, const Digits& digits) {
    return planes_of_biased<kDigits>(digits(x.x), digits(x.y), digits(x.z), digits(x.w));
}

// Combines kRows numbers in each of kLanes adjacent lanes over these lanes, row by row: a lane gets the result of one
// row, lane % kLanes / (kLanes / kRows), which moves fewer numbers than if every lane got all.
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

// The largest magnitude of four numbers and `largest`.
__device__ __forceinline__ float larger_magnitude(float4 x, float largest) {
    return fmaxf(fmaxf(largest, fmaxf(fabsf(x.x), fabsf(x.y))), fmaxf(fabsf(x.z), fabsf(x.w)));
}

// The sum of four squares and `sum`. For choosing code, never for bytes.
__device__ __forceinline__ float added_squares(float4 x, float sum) {
    return fused(x.x, x.x, fused(x.y, x.y, fused(x.z, x.z, fused(x.w, x.w, sum))));
}

// At least the length of every vector of up to 256 numbers with a computed sum of squares up to `square`. Rounding
// costs less than a thousandth, squares that vanish less than 2^-70: a thousandth too, or below the least bound.
__device__ __forceinline__ float length_bound(float square) { return fmaxf(sqrtf(square) * 1.001f, 0x1p-56f); }

// ---- Where the scores of 64 rows and a tile of keys are, as the tensor cores leave them: a thread has row `lane / 4`
// of its warp's 16 and the row 8 further on, and of each 8 keys the two from 2 * (lane % 4) on. Score 4*g + 2*h + i is
// row h, key 8*g + 2*(lane % 4) + i.

constexpr int kRowsEach = 2; // in a thread

// The thread's number. With kAnew it is read each time, so the compiler cannot keep values computed from it from job to
// job, through the products, where no registers are free for them.
template <bool kAnew>
__device__ __forceinline__ int thread_number() {
    if constexpr (!kAnew) return static_cast<int>(threadIdx.x);
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    __builtin_assume(thread >= 0 && thread < 1024); // then divisions by powers of 2 are shifts
    return thread;
}

// The scores of a thread, for both rows.
template <class Rules>
constexpr int kScoresOf = Rules::kTileKeys / 2;

// A thread's i-th score of one of its rows; the row of a score; the key of a score, counted from the thread's first.
__device__ constexpr int score_at(int row, int i) { return 4 * (i / 2) + 2 * row + i % 2; }
__device__ constexpr int row_of(int score) { return score / 2 % 2; }
__device__ constexpr int key_of(int score) { return score / 4 * 8 + score % 2; }

// The maximum over a row's four lanes.
__device__ __forceinline__ int32_t largest_of_row(int32_t x) {
    x = max(x, __shfl_xor_sync(~0u, x, 1));
    return max(x, __shfl_xor_sync(~0u, x, 2));
}

// The maximum of 16 numbers, as a tree: a chain would wait for every step.
template <class At>
__device__ __forceinline__ int32_t largest_of_16(const At& at) {
    int32_t of_three[5];
#pragma unroll
    for (int i = 0; i < 5; ++i) of_three[i] = __vimax3_s32(at(3 * i), at(3 * i + 1), at(3 * i + 2));
    return max(__vimax3_s32(of_three[0], of_three[1], of_three[2]), __vimax3_s32(of_three[3], of_three[4], at(15)));
}

// The number of a tile's keys that a thread's rows see, counted from the thread's first key: `of_first` for its first
// row and, under the causal mask, one more for each further row. Other keys are behind the last key, or hidden.
struct TileSight {
    int of_first; // for the first row
    int more;     // added for each further row

    __device__ __forceinline__ int of(int row) const { return of_first + 8 * row * more; }
    __device__ __forceinline__ bool sees(int score) const { return key_of(score) < of(row_of(score)); }
    template <class Rules>
    __device__ __forceinline__ bool all() const {
        return of_first > key_of(kScoresOf<Rules> - 1);
    }
};

} // namespace hw4::gpu::fixed_point
