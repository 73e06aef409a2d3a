// The tile of a product, over the vectors of the unit that a file is compiled for: an outer product of a few rows and a
// few vectors of columns, term by term. A lane is one element of the tile, so its chains ascend as orders.h says.
#pragma once

#include <cstring>

#include "src/contracts/fma_clones.h"
#include "src/step/kernels.h"
#include "src/step/orders.h"
#include "src/step/rows.h"
#if defined(__AVX2__)
#include "src/cpu/x86_intrinsics.h"
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hw4::step {
namespace { // each file has its own

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
