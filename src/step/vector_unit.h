// What a vector unit computes of a training step, for the unit that a file is compiled for.
#pragma once

#include <cstring>

#include "src/contracts/fma_clones.h"
#include "src/contracts/rope.h"
#include "src/step/kernels.h"
#include "src/step/orders.h"
#if defined(__AVX2__)
#include "src/cpu/x86_intrinsics.h"
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hw4::step {
namespace { // each file has its own

// ---- The tile of a product: an outer product of a few rows and a few vectors of columns, term by term. A lane is one
// element of the tile, so its chains ascend as orders.h says.

// As many chains as the unit has registers for, beside a row of vectors and one broadcast.
#if defined(__AVX512F__)
constexpr int kWidth = 16, kTileRows = 8, kTileVectors = 3;
#elif defined(__AVX2__)
constexpr int kWidth = 8, kTileRows = 6, kTileVectors = 2;
#elif defined(__aarch64__)
constexpr int kWidth = 4, kTileRows = 8, kTileVectors = 3;
#else
constexpr int kWidth = 4, kTileRows = 4, kTileVectors = 2;
#endif
constexpr int kTileColumns = kTileVectors * kWidth;

using Lanes = float __attribute__((vector_size(kWidth * sizeof(float))));

HW4_INLINE Lanes fused_lanes(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
    return vfmaq_f32(c, a, b);
#else
    for (int i = 0; i < kWidth; ++i) c[i] = fused(a[i], b[i], c[i]);
    return c;
#endif
}

HW4_INLINE Lanes broadcast(float value) { return value - Lanes{}; } // exact: -0 stays -0

HW4_INLINE Lanes load(const float* from) {
    Lanes x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
HW4_INLINE void store(float* to, Lanes x) { std::memcpy(to, &x, sizeof x); }

HW4_FMA_CLONES void multiply_tile(const float* a, const float* b, int64_t terms, float* totals) {
    for (int64_t begin = 0; begin < terms; begin += kChain) {
        Lanes chain[kTileRows][kTileVectors];
#pragma GCC unroll 8
        for (int row = 0; row < kTileRows; ++row)
#pragma GCC unroll 4
            for (int v = 0; v < kTileVectors; ++v) chain[row][v] = Lanes{};
        const int64_t count = terms - begin < kChain ? terms - begin : kChain;
        for (int64_t k = 0; k < count; ++k, a += kTileRows, b += kTileColumns) {
            Lanes columns[kTileVectors];
#pragma GCC unroll 4
            for (int v = 0; v < kTileVectors; ++v) columns[v] = load(b + v * kWidth);
#pragma GCC unroll 8
            for (int row = 0; row < kTileRows; ++row) {
                const Lanes value = broadcast(a[row]);
#pragma GCC unroll 4
                for (int v = 0; v < kTileVectors; ++v) chain[row][v] = fused_lanes(value, columns[v], chain[row][v]);
            }
        }
#pragma GCC unroll 8
        for (int row = 0; row < kTileRows; ++row)
#pragma GCC unroll 4
            for (int v = 0; v < kTileVectors; ++v) {
                float* const total = totals + row * kTileColumns + v * kWidth;
                store(total, load(total) + chain[row][v]);
            }
    }
}

// ---- Rows of the other operations, as plain loops that follow arithmetic.h and orders.h. The compiler makes vectors
// of them; that reorders nothing, since every sum has 128 chains or one for each column.

HW4_FMA_CLONES void norm_row(const float* x, const float* gain, float* y, float* factor, int64_t width) {
    const float squares = row_sum<float>(width, [&](int64_t e, float chain) { return fused(x[e], x[e], chain); });
    const float r = norm_factor(squares, inverse_of_width(width));
    *factor = r;
    for (int64_t e = 0; e < width; ++e) y[e] = normalized(x[e], r, gain[e]);
}

HW4_FMA_CLONES void norm_back_row(const float* x, const float* gain, float r, const float* dy, float* dx,
                                  int64_t width) {
    const auto h = [&](int64_t e) { return dy[e] * gain[e]; };
    const float sum = row_sum<float>(width, [&](int64_t e, float chain) { return fused(h(e), x[e], chain); });
    const float k = norm_back_factor(r, sum, inverse_of_width(width));
    for (int64_t e = 0; e < width; ++e) dx[e] = dx[e] + norm_gradient(x[e], h(e), r, k);
}

HW4_FMA_CLONES void norm_gain_leaf(const float* x, const float* factors, const float* dy, float* leaf, int64_t context,
                                   int64_t width, int64_t columns) {
    float total[kGainColumns] = {};
    for (int64_t begin = 0; begin < context; begin += kChain) {
        float chain[kGainColumns] = {};
        for (int64_t t = begin; t < context && t < begin + kChain; ++t)
            for (int64_t c = 0; c < columns; ++c)
                chain[c] = fused(dy[t * width + c], x[t * width + c] * factors[t], chain[c]);
        for (int64_t c = 0; c < columns; ++c) total[c] = total[c] + chain[c];
    }
    for (int64_t c = 0; c < columns; ++c) leaf[c] = total[c];
}

HW4_FMA_CLONES void rotate_row(float* row, const float* table, int64_t pairs, bool back) {
    for (int64_t i = 0; i < pairs; ++i) {
        const float sine = table[2 * i + 1];
        const Rotated turned = rotate(row[2 * i], row[2 * i + 1], table[2 * i], back ? -sine : sine);
        row[2 * i] = turned.x;
        row[2 * i + 1] = turned.y;
    }
}

HW4_FMA_CLONES void swiglu_row(const float* u, const float* v, float* h, int64_t hidden) {
    for (int64_t e = 0; e < hidden; ++e) h[e] = swiglu(u[e], v[e]);
}

HW4_FMA_CLONES void swiglu_back_row(const float* u, const float* v, const float* dh, float* du, float* dv,
                                    int64_t hidden) {
    for (int64_t e = 0; e < hidden; ++e) {
        const SwigluGradient gradient = swiglu_gradient(u[e], v[e], dh[e]);
        du[e] = gradient.du;
        dv[e] = gradient.dv;
    }
}

// First the maximum of each lane: a compiler keeps the order of comparisons, which a maximum does not need.
HW4_INLINE float largest_of(const float* z, int64_t count) {
    constexpr int64_t kLanes = 64;
    float lanes[kLanes];
    for (float& lane : lanes) lane = -HUGE_VALF;
    for (int64_t first = 0; first < count; first += kLanes) {
        const int64_t part = count - first < kLanes ? count - first : kLanes;
        for (int64_t l = 0; l < part; ++l) lanes[l] = larger(lanes[l], z[first + l]);
    }
    float most = lanes[0];
    for (const float lane : lanes) most = larger(most, lane);
    return most;
}

HW4_FMA_CLONES double cross_entropy_row(float* z, int32_t target, int64_t vocabulary, float share) {
    const LogitUnit unit = logit_unit(largest_of(z, vocabulary));
    const float target_logit = z[target];
    for (int64_t e = 0; e < vocabulary; ++e) z[e] = unit.weight(z[e]);
    const float l = row_sum<float>(vocabulary, [&](int64_t e, float chain) { return chain + z[e]; });
    const float inverse_l = quotient(1.0f, l);
    const float of_target = logit_gradient(z[target], inverse_l, true, share);
    for (int64_t e = 0; e < vocabulary; ++e) z[e] = logit_gradient(z[e], inverse_l, false, share);
    z[target] = of_target;
    return cross_entropy_loss(unit, l, target_logit);
}

HW4_FMA_CLONES float squares_of_segment(const float* x) {
    return row_sum<float>(kSegment, [&](int64_t e, float chain) { return fused(x[e], x[e], chain); });
}

HW4_FMA_CLONES void adamw_row(float* p, const float* g, float* m, float* v, int64_t count, const Adam& step) {
    for (int64_t i = 0; i < count; ++i) adamw(p[i], g[i], m[i], v[i], step);
}

constexpr Kernels kernels_of_unit(const char* name, bool (*supported)()) {
    return {.name = name,
            .supported = supported,
            .tile_rows = kTileRows,
            .tile_columns = kTileColumns,
            .tile = multiply_tile,
            .norm = norm_row,
            .norm_back = norm_back_row,
            .norm_gain = norm_gain_leaf,
            .rotate = rotate_row,
            .swiglu = swiglu_row,
            .swiglu_back = swiglu_back_row,
            .cross_entropy = cross_entropy_row,
            .squares = squares_of_segment,
            .adamw = adamw_row};
}

} // namespace
} // namespace hw4::step
