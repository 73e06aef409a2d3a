// RMSNorm and the squares of a gradient, a warp for each row or segment: column e of a segment belongs to lane e / 4 %
// 32, which is what ROW-SUM asks for (orders.h).
#include "src/step/gpu/rows.cuh"

#ifndef NORM_BLOCKS
#define NORM_BLOCKS 0
#endif
#if NORM_RESTRICT
#define RESTRICT __restrict__
#else
#define RESTRICT
#endif

namespace hw4::step {
namespace {

// term(column, chains) adds four columns' terms.
template <class Term>
__device__ __forceinline__ float row_sum_of_warp(int64_t width, const Term& term) {
    float sum = 0;
    for (int64_t first = 0; first < width; first += kRowSegment) {
        Four chains = {};
#pragma unroll
        for (int64_t i = 0; i < kRowSegment; i += kRowChains) {
            const int64_t column = first + i + 4 * lane();
            if (column < width) term(column, chains);
        }
        sum = sum + sum_of_lanes(chains);
    }
    return sum;
}

template <bool kWide>
__device__ __forceinline__ float sum_of_squares(const float* x, int64_t width) {
    return row_sum_of_warp(width, [&](int64_t column, Four& chains) {
        const Four four = load<kWide>(x, column, width);
#pragma unroll
        for (int i = 0; i < 4; ++i) chains.x[i] = fused(four.x[i], four.x[i], chains.x[i]);
    });
}

__global__ void __launch_bounds__(kThreads) square_segments(const float* x, int64_t segments, float* sums) {
    const int64_t segment = int64_t{blockIdx.x} * kWarps + warp();
    if (segment >= segments) return;
    const float sum = sum_of_squares<true>(x + segment * kRowSegment, kRowSegment);
    if (lane() == 0) sums[segment] = sum;
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads, NORM_BLOCKS)
    norm_rows(const float* RESTRICT all_x, const float* RESTRICT gain, float* RESTRICT all_y, float* factors,
              int64_t rows, int64_t width) {
    const int64_t row = int64_t{blockIdx.x} * kWarps + warp();
    if (row >= rows) return;
    const float* const x = all_x + row * width;
    const float r = norm_factor(sum_of_squares<kWide>(x, width), inverse_of_width(width));
    if (lane() == 0) factors[row] = r;
    each_four(width, lane(), kWarpSize, [&](int64_t column) {
        const Four four = load<kWide>(x, column, width), by = load<kWide>(gain, column, width);
        store<kWide>(all_y + row * width, column, width,
                     each([&](int i) { return normalized(four.x[i], r, by.x[i]); }));
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads, NORM_BLOCKS)
    norm_back_rows(const float* RESTRICT all_x, const float* RESTRICT gain, const float* RESTRICT factors,
                   const float* RESTRICT all_dy, float* RESTRICT all_dx, int64_t rows, int64_t width) {
    const int64_t row = int64_t{blockIdx.x} * kWarps + warp();
    if (row >= rows) return;
    const float* const x = all_x + row * width;
    const float* const dy = all_dy + row * width;
    float* const dx = all_dx + row * width;
    const auto h_of = [&](int64_t column) {
        const Four four = load<kWide>(dy, column, width), by = load<kWide>(gain, column, width);
        return each([&](int i) { return four.x[i] * by.x[i]; });
    };
    const float sum = row_sum_of_warp(width, [&](int64_t column, Four& chains) {
        const Four four = load<kWide>(x, column, width), h = h_of(column);
#pragma unroll
        for (int i = 0; i < 4; ++i) chains.x[i] = fused(h.x[i], four.x[i], chains.x[i]);
    });
    const float r = factors[row], k = norm_back_factor(r, sum, inverse_of_width(width));
    each_four(width, lane(), kWarpSize, [&](int64_t column) {
        const Four four = load<kWide>(x, column, width), h = h_of(column), before = load<kWide>(dx, column, width);
        store<kWide>(dx, column, width,
                     each([&](int i) { return before.x[i] + norm_gradient(four.x[i], h.x[i], r, k); }));
    });
}

} // namespace

void RowKernels::squares(const float* x, int64_t segments, float* sums) const {
    launch("launch of square_segments", square_segments, Blocks{stream_, parts(segments, kWarps)}, x, segments, sums);
}

void RowKernels::norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) const {
    const Blocks blocks{stream_, parts(rows, kWarps)};
    HW4_LAUNCH(norm_rows, by_four(width, x, gain, y), blocks, x, gain, y, factors, rows, width);
}

void RowKernels::norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx,
                           int64_t rows, int64_t width) const {
    const Blocks blocks{stream_, parts(rows, kWarps)};
    HW4_LAUNCH(norm_back_rows, by_four(width, x, gain, dy, dx), blocks, x, gain, factors, dy, dx, rows, width);
}

} // namespace hw4::step
