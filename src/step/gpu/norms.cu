// RMSNorm and the squares of a gradient: a warp for each segment. Column e belongs to lane e / 4 % 32, as in ROW-SUM
// (orders.h). A row has at most 8 warps. A row of up to 8 segments stays in registers.
#include "src/step/gpu/rows.cuh"

#include <algorithm>

namespace hw4::step {
namespace {

constexpr int kUsualWarps = 4; // per block
constexpr int kNormBlocks = 2; // per multiprocessor, with the most warps

// Every lane gets the sum of a segment of a * b.
__device__ __forceinline__ float sum_of_segment(const Part& a, const Part& b, int segment, int width) {
    Four chains = {};
    each_part(segment, width, [&](int i, int) {
#pragma unroll
        for (int c = 0; c < 4; ++c) chains.x[c] = fused(a[i].x[c], b[i].x[c], chains.x[c]);
    });
    return sum_of_lanes(chains);
}

// Sums a * b over the row. read(segment) fetches a and b; write(segment, sum) finds that segment in a and b.
template <class Read, class Write>
__device__ __forceinline__ void with_row_sum(const Part& a, const Part& b, int width, const Read& read,
                                             const Write& write) {
    __shared__ float of_warps[kWarps];
    const int warps = static_cast<int>(blockDim.x) / kWarpSize, segments = static_cast<int>(parts(width, kRowSegment));
    float* const of_row = of_warps + threadIdx.y * warps;
    float sum = 0;
    for (int segment = warp(); segment - warp() < segments; segment += warps) {
        read(segment);
        const float own = sum_of_segment(a, b, segment, width);
        if (warps == 1) {
            sum = sum + own;
            continue;
        }
        if (lane() == 0) of_row[warp()] = own;
        __syncthreads();
        for (int i = 0; i < warps; ++i) sum = sum + of_row[i];
        __syncthreads();
    }
    for (int segment = warp(); segment < segments; segment += warps) {
        if (segments > warps) read(segment);
        write(segment, sum);
    }
}

__global__ void __launch_bounds__(kThreads) square_segments(const float* x, int64_t segments, float* sums) {
    const int64_t segment = int64_t{blockIdx.x} * kWarps + warp();
    if (segment >= segments) return;
    Part of_x;
    fetch<true>(of_x, x + segment * kRowSegment, 0, kRowSegment);
    const float sum = sum_of_segment(of_x, of_x, 0, kRowSegment);
    if (lane() == 0) sums[segment] = sum;
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads, kNormBlocks)
    norm_rows(const float* x, const float* gain, float* y, float* factors, int64_t rows, int width) {
    const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    Part of_x, by;
    const auto read = [&](int segment) {
        fetch<kWide>(of_x, x + row * width, segment, width);
        fetch<kWide>(by, gain, segment, width);
    };
    with_row_sum(of_x, of_x, width, read, [&](int segment, float sum) {
        const float r = norm_factor(sum, inverse_of_width(width));
        if (threadIdx.x == 0) factors[row] = r;
        each_part(segment, width, [&](int i, int column) {
            store<kWide>(y + row * width, column, width,
                         each([&](int c) { return normalized(of_x[i].x[c], r, by[i].x[c]); }));
        });
    });
}

template <bool kWide>
__global__ void __launch_bounds__(kThreads, kNormBlocks)
    norm_back_rows(const float* x, const float* gain, const float* factors, const float* dy, float* dx, int64_t rows,
                   int width) {
    const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float r = factors[row];
    Part of_x, h, before;
    const auto read = [&](int segment) {
        fetch<kWide>(of_x, x + row * width, segment, width);
        fetch<kWide>(h, dy + row * width, segment, width);
        fetch<kWide>(before, dx + row * width, segment, width);
        each_part(segment, width, [&](int i, int column) {
            const Four by = load<kWide>(gain, column, width);
            h[i] = each([&](int c) { return h[i].x[c] * by.x[c]; });
        });
    };
    with_row_sum(h, of_x, width, read, [&](int segment, float sum) {
        const float k = norm_back_factor(r, sum, inverse_of_width(width));
        each_part(segment, width, [&](int i, int column) {
            store<kWide>(dx + row * width, column, width,
                         each([&](int c) { return before[i].x[c] + norm_gradient(of_x[i].x[c], h[i].x[c], r, k); }));
        });
    });
}

Blocks blocks_for(cudaStream_t stream, int64_t rows, int64_t width) {
    const auto warps = static_cast<unsigned>(std::min<int64_t>(parts(width, kRowSegment), kWarps));
    const unsigned of_block = std::max(kUsualWarps / warps, 1u); // rows
    return {stream, parts(rows, of_block), {warps * kWarpSize, of_block}};
}

} // namespace

void RowKernels::squares(const float* x, int64_t segments, float* sums) const {
    launch("launch of square_segments", square_segments, Blocks{stream_, parts(segments, kWarps)}, x, segments, sums);
}

void RowKernels::norm(const float* x, const float* gain, float* y, float* factors, int64_t rows, int64_t width) const {
    HW4_LAUNCH(norm_rows, by_four(width, x, gain, y), blocks_for(stream_, rows, width), x, gain, y, factors, rows,
               static_cast<int>(width));
}

void RowKernels::norm_back(const float* x, const float* gain, const float* factors, const float* dy, float* dx,
                           int64_t rows, int64_t width) const {
    HW4_LAUNCH(norm_back_rows, by_four(width, x, gain, dy, dx), blocks_for(stream_, rows, width), x, gain, factors, dy,
               dx, rows, static_cast<int>(width));
}

} // namespace hw4::step
