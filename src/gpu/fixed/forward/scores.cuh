// Where the scores of 64 rows and a tile of keys are, as the tensor cores leave them: a thread has rows `lane / 4` and
// that plus 8 of its warp's 16, and of each 8 keys the two from 2 * (lane % 4) on. Score 4*g + 2*h + i is row h, key
// 8*g + 2*(lane % 4) + i.
#pragma once

#include "src/gpu/fixed/forward/digits.cuh"

namespace hw4::gpu::fixed_point {

constexpr int kRowsEach = 2; // of a thread

// The thread's number. Where it is asked for anew each time, the compiler cannot keep what follows from it from job to
// job, through the products, where there are no registers for it.
template <bool kAnew>
__device__ __forceinline__ int thread_number() {
    if constexpr (!kAnew) return static_cast<int>(threadIdx.x);
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// Of a thread, both rows.
template <class Rules>
constexpr int kScoresOf = Rules::kTileKeys / 2;

// A thread's i-th score of one of its rows; of a score the row, and the key, counted from the thread's first.
__device__ constexpr int score_at(int row, int i) { return 4 * (i / 2) + 2 * row + i % 2; }
__device__ constexpr int row_of(int score) { return score / 2 % 2; }
__device__ constexpr int key_of(int score) { return score / 4 * 8 + score % 2; }

// Of a row's four lanes.
__device__ __forceinline__ int32_t largest_of_row(int32_t x) {
    x = max(x, __shfl_xor_sync(~0u, x, 1));
    return max(x, __shfl_xor_sync(~0u, x, 2));
}

// Of 16, as a tree: a chain would wait for every step.
template <class At>
__device__ __forceinline__ int32_t largest_of_16(const At& at) {
    int32_t of_three[5];
#pragma unroll
    for (int i = 0; i < 5; ++i) of_three[i] = __vimax3_s32(at(3 * i), at(3 * i + 1), at(3 * i + 2));
    return max(__vimax3_s32(of_three[0], of_three[1], of_three[2]), __vimax3_s32(of_three[3], of_three[4], at(15)));
}

// How many of a tile's keys a thread's rows see, counted from the thread's first key: its first row so many and, under
// the causal mask, each row one more than the row before. What they do not see comes after the last key, or is hidden.
struct TileSight {
    int of_first; // row
    int more;     // each row than the one before

    __device__ __forceinline__ int of(int row) const { return of_first + 8 * row * more; }
    __device__ __forceinline__ bool sees(int score) const { return key_of(score) < of(row_of(score)); }
    template <class Rules>
    __device__ __forceinline__ bool all() const {
        return of_first > key_of(kScoresOf<Rules> - 1);
    }
};

} // namespace hw4::gpu::fixed_point
