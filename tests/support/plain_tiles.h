// The machine of src/cpu/half/attention_tiles.h in plain C++: it does what the manual says of the instructions.
// Denormal inputs and results count as zeros, whatever the processor does elsewhere.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/cpu/half/attention_tiles.h"

namespace hw4::cpu {

struct PlainFloats {
    float x[16] = {};

    PlainFloats() = default;
    explicit PlainFloats(float value) {
        for (float& lane : x) lane = value;
    }
    static PlainFloats load(const float* from) { return load_anywhere(from); }
    static PlainFloats load_anywhere(const float* from) {
        PlainFloats loaded;
        for (int i = 0; i < 16; ++i) loaded.x[i] = from[i];
        return loaded;
    }
    void store(float* to) const {
        for (int i = 0; i < 16; ++i) to[i] = x[i];
    }
    template <class Lane>
    static PlainFloats of(Lane lane) {
        PlainFloats made;
        for (int i = 0; i < 16; ++i) made.x[i] = lane(i);
        return made;
    }
};

struct PlainInts {
    int32_t x[16];

    void store(int32_t* to) const {
        for (int i = 0; i < 16; ++i) to[i] = x[i];
    }
};

inline PlainFloats operator+(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] + b.x[i]; });
}
inline PlainFloats operator-(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] - b.x[i]; });
}
inline PlainFloats operator*(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] * b.x[i]; });
}
inline PlainFloats operator/(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return a.x[i] / b.x[i]; });
}
inline PlainFloats fused(PlainFloats a, PlainFloats b, PlainFloats c) {
    return PlainFloats::of([&](int i) { return hw4::fused(a.x[i], b.x[i], c.x[i]); });
}
inline PlainFloats larger(PlainFloats a, PlainFloats b) {
    return PlainFloats::of([&](int i) { return hw4::larger(a.x[i], b.x[i]); });
}
inline PlainFloats add_exponent_above(PlainFloats least, PlainFloats x, PlainFloats y, PlainFloats t) {
    return PlainFloats::of([&](int i) { return hw4::cpu::add_exponent_above(least.x[i], x.x[i], y.x[i], t.x[i]); });
}
inline bool any_above(PlainFloats a, PlainFloats b) {
    bool any = false;
    for (int i = 0; i < 16; ++i) any = any || a.x[i] > b.x[i];
    return any;
}

struct PlainTiles {
    using F = PlainFloats;
    using I = PlainInts;
    struct Session {};

    template <class T>
    static void transpose4(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
        for (int64_t row = 0; row < 4; ++row)
            for (int64_t x = 0; x < 4; ++x) to[x * to_stride + row] = from[row * from_stride + x];
    }
    static F widened(const uint16_t* from) {
        return F::of([&](int i) { return float_of(uint32_t{from[i]} << 16); });
    }
    static I pair(F low, F high) {
        I words{};
        for (int i = 0; i < 16; ++i)
            words.x[i] = static_cast<int32_t>((bits_of(low.x[i]) + 0x8000u) >> 16 |
                                              ((bits_of(high.x[i]) + 0x8000u) & 0xffff0000u));
        return words;
    }

    static float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

    // Multiplies 16 columns and 16 rows: even and odd places have separate sums, added first to each other, then to c.
    static void add_tile(const uint16_t* columns, const uint16_t* rows, float* c) {
        for (int64_t x = 0; x < 16; ++x)
            for (int64_t row = 0; row < 16; ++row) {
                float sums[2] = {};
                for (int64_t place = 0; place < 32; ++place) {
                    const float a = float_of(uint32_t{columns[x * 32 + place]} << 16);
                    const float b = float_of(uint32_t{rows[place / 2 * 32 + row * 2 + place % 2]} << 16);
                    sums[place % 2] = flushed(std::fma(flushed(a), flushed(b), sums[place % 2]));
                }
                c[x * 32 + row] = flushed(flushed(c[x * 32 + row]) + flushed(sums[0] + sums[1]));
            }
    }

    template <bool kAdds>
    static void products(const uint16_t* columns, int64_t block, const uint16_t* rows, int64_t steps, float* c) {
        for (int64_t i = 0; i < 32 * 32 && !kAdds; ++i) c[i] = 0.0f;
        for (int64_t step = 0; step < steps; ++step)
            for (int64_t x = 0; x < 2; ++x)
                for (int64_t r = 0; r < 2; ++r)
                    add_tile(columns + x * block + step * 16 * 32, rows + (step * 2 + r) * 16 * 32,
                             c + x * 16 * 32 + r * 16);
    }
};

} // namespace hw4::cpu
