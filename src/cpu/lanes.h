// Four numbers in one of the compiler's vectors, for the kernels that run on any processor.
#pragma once

#include <cstring>
#include <type_traits>

#include "src/contracts/f32/forward.h"

namespace hw4::cpu {

using FourFloats __attribute__((vector_size(16))) = float;
using FourInts __attribute__((vector_size(16))) = int32_t;
using FourWords __attribute__((vector_size(16))) = uint32_t;

template <class T>
struct Lanes {
    static constexpr int kWidth = 4;
    using Vector = std::conditional_t<std::is_same_v<T, float>, FourFloats, FourInts>;
    using Words = FourWords; // computes modulo 2^32

    Vector x;

    Lanes() = default;
    HW4_INLINE Lanes(Vector value) : x(value) {}
    HW4_INLINE explicit Lanes(T value) : x(value - Vector{}) {}
    static HW4_INLINE Lanes load(const T* from) {
        Lanes lanes; // NOLINT(cppcoreguidelines-pro-type-member-init): filled at once
        std::memcpy(&lanes.x, from, sizeof lanes.x);
        return lanes;
    }
    static HW4_INLINE Lanes load_anywhere(const T* from) { return load(from); }
    HW4_INLINE void store(T* to) const { std::memcpy(to, &x, sizeof x); }
    HW4_INLINE Words words() const { return Words(x); }

    template <int kBits>
    HW4_INLINE Lanes shifted_left() const {
        return Vector(words() << kBits);
    }
    template <int kBits>
    HW4_INLINE Lanes shifted_right() const {
        return x >> kBits;
    }
    HW4_INLINE Lanes shifted_left(Lanes bits) const { return Vector(words() << bits.words()); }
    HW4_INLINE Lanes shifted_right(Lanes bits) const { return x >> bits.x; }
    HW4_INLINE Lanes<float> as_float() const { return Lanes<float>::Vector(x); }

    // to[t][row] = from[row][t], 4 x 4.
    template <class Word>
    static HW4_INLINE void transpose4(const Word* from, int64_t from_stride, Word* to, int64_t to_stride) {
        for (int t = 0; t < 4; ++t)
            for (int row = 0; row < 4; ++row) to[t * to_stride + row] = from[row * from_stride + t];
    }
};

using Floats = Lanes<float>;
using Ints = Lanes<int32_t>;

HW4_INLINE Floats operator+(Floats a, Floats b) { return a.x + b.x; }
HW4_INLINE Floats operator-(Floats a, Floats b) { return a.x - b.x; }
HW4_INLINE Floats operator*(Floats a, Floats b) { return a.x * b.x; }
HW4_INLINE Floats operator-(Floats a) { return -a.x; }
HW4_INLINE Floats fused(Floats a, Floats b, Floats c) {
    for (int i = 0; i < Floats::kWidth; ++i) c.x[i] = hw4::fused(a.x[i], b.x[i], c.x[i]);
    return c;
}
HW4_INLINE Floats larger(Floats a, Floats b) { return a.x > b.x ? a.x : b.x; }
HW4_INLINE bool any_above(Floats a, Floats b) {
    const auto above = a.x > b.x;
    return (above[0] | above[1] | above[2] | above[3]) != 0;
}
HW4_INLINE Floats add_exponent(Floats y, Floats t) { return Floats::Vector(y.words() + (t.words() << 23)); }

HW4_INLINE Ints operator+(Ints a, Ints b) { return Ints::Vector(a.words() + b.words()); }
HW4_INLINE Ints operator-(Ints a, Ints b) { return Ints::Vector(a.words() - b.words()); }
HW4_INLINE Ints operator&(Ints a, Ints b) { return a.x & b.x; }
HW4_INLINE Ints larger(Ints a, Ints b) { return a.x > b.x ? a.x : b.x; }
HW4_INLINE Ints smaller(Ints a, Ints b) { return a.x < b.x ? a.x : b.x; }
HW4_INLINE bool any_positive(Ints a) { return a.x[0] > 0 || a.x[1] > 0 || a.x[2] > 0 || a.x[3] > 0; }
HW4_INLINE Floats to_float(Ints a) { return __builtin_convertvector(a.x, Floats::Vector); }

} // namespace hw4::cpu
