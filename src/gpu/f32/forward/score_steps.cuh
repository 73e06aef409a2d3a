// The product of two tiles whose rows stand transposed in shared memory: what a step of it is.
#pragma once

#include "src/gpu/f32/forward/register_tile.cuh"

namespace hw4::gpu {

// A step of the scores is a column: a are rows of Q, b are keys.
template <class T>
struct ScoreSteps {
    static __device__ __forceinline__ constexpr int a(int u) { return 4 * u * T::kQStride; }
    static __device__ __forceinline__ constexpr int b(int u) { return 4 * u * T::kKStride; }
    static __device__ __forceinline__ void load(Fragments<T::kKT>& f, int slot, const Factors& from, int u) {
        load_floats(f.a[slot], from.a + a(u), kSecondRows);
        load_floats(f.b[slot], from.b + b(u), kSecondPlaces);
    }
    static __device__ __forceinline__ void multiply(float (&acc)[kRowsPerThread][T::kKT],
                                                    const float (&q)[kRowsPerThread], const float (&k)[T::kKT],
                                                    bool from_zero) {
        outer_by_columns(acc, q, k, from_zero);
    }
};

} // namespace hw4::gpu
