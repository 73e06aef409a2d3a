// Element types: float32, or 16 bits, which are widened when they are loaded and rounded to nearest even when they are
// stored. All code in between uses floats.
#pragma once

#include "src/gpu/half/forward/numbers.cuh"
#include "src/problem/element.h"

namespace hw4::gpu::fixed_point {

using half_forward::Bf16;
using half_forward::Fp16;

// Four adjacent numbers of a row as stored, for loads.
template <class Stored>
struct FourOf;
template <>
struct FourOf<float> {
    using Type = float4;
    static __device__ __forceinline__ float4 of(const float (&x)[4]) { return make_float4(x[0], x[1], x[2], x[3]); }
};
template <>
struct FourOf<uint16_t> {
    using Type = uint2;
    static __device__ __forceinline__ uint2 of(const uint16_t (&x)[4]) {
        return make_uint2(x[0] | uint32_t{x[1]} << 16, x[2] | uint32_t{x[3]} << 16);
    }
};
template <class Stored>
using Four = typename FourOf<Stored>::Type;

// A row's four columns from `first` on; they must exist and be aligned.
template <class Stored>
__device__ __forceinline__ Four<Stored> four_at(const Stored* row, int first) {
    return *reinterpret_cast<const Four<Stored>*>(row + first);
}

// The same, with zeros for columns that do not exist.
template <class Stored>
__device__ __forceinline__ Four<Stored> four_columns(const Stored* row, int first, int dim, bool aligned) {
    if (aligned && first + 4 <= dim) return four_at(row, first);
    Stored x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = first + i < dim ? row[first + i] : Stored{0};
    return FourOf<Stored>::of(x);
}

template <class Number>
__device__ __forceinline__ float4 widened(uint2 four) {
    return make_float4(Number::low(four.x), Number::high(four.x), Number::low(four.y), Number::high(four.y));
}

// Element types, as template arguments.
struct Float32Element {
    using Stored = float;
    static __device__ __forceinline__ float4 floats(float4 four) { return four; }
};
template <class Number>
struct NarrowElement {
    using Stored = uint16_t;
    static __device__ __forceinline__ float4 floats(uint2 four) { return widened<Number>(four); }
};

// A row of the output, from some column on.
struct FloatRow {
    float* at;

    __device__ __forceinline__ void put(int column, float x) const { at[column] = x; }
    __device__ __forceinline__ void put_pair(int column, float a, float b) const {
        *reinterpret_cast<float2*>(at + column) = make_float2(a, b);
    }
};

// The same for 16-bit numbers of the launch's type.
struct NarrowRow {
    uint16_t* at;
    Element element;

    __device__ __forceinline__ void put(int column, float x) const {
        at[column] = static_cast<uint16_t>(packed(x, 0.0f));
    }
    __device__ __forceinline__ void put_pair(int column, float a, float b) const {
        *reinterpret_cast<uint32_t*>(at + column) = packed(a, b);
    }

private:
    __device__ __forceinline__ uint32_t packed(float low, float high) const {
        return element == Element::bf16 ? Bf16::pack(low, high) : Fp16::pack(low, high);
    }
};

} // namespace hw4::gpu::fixed_point
