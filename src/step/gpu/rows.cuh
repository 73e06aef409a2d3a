// Helpers of kernels that compute rows. A thread takes four columns of a row at a time. If the width
// is no multiple of 4, it reads single floats, and zeros beyond the end of the row.
#pragma once

#include "src/gpu/common/warp.cuh"
#include "src/gpu/device/check.h"
#include "src/step/gpu/rows.h"
#include "src/step/orders.h"

namespace hw4::step {

using gpu::kAllLanes;
using gpu::kWarpSize;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpSize; }

struct Four {
    float x[4];
};

// Loads four columns of a row, and `pad` for columns beyond its end. kWide: the row begins at a multiple of 16 bytes,
// and its width is a multiple of 4.
template <bool kWide>
__device__ __forceinline__ Four load(const float* row, int64_t column, int64_t width, float pad = 0.0f) {
    Four four;
    if (kWide) {
        const float4 x = *reinterpret_cast<const float4*>(row + column);
        four = {{x.x, x.y, x.z, x.w}};
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) four.x[i] = column + i < width ? row[column + i] : pad;
    }
    return four;
}

template <bool kWide>
__device__ __forceinline__ void store(float* row, int64_t column, int64_t width, const Four& four) {
    if (kWide) {
        *reinterpret_cast<float4*>(row + column) = make_float4(four.x[0], four.x[1], four.x[2], four.x[3]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (column + i < width) row[column + i] = four.x[i];
    }
}

// what(0) to what(3).
template <class What>
__device__ __forceinline__ Four each(const What& what) {
    return {{what(0), what(1), what(2), what(3)}};
}

// Every lane gets the sum of a segment.
__device__ __forceinline__ float sum_of_lanes(const Four& chains) {
    float sum = (chains.x[0] + chains.x[1]) + (chains.x[2] + chains.x[3]);
#pragma unroll
    for (int half = kWarpSize / 2; half > 0; half /= 2) sum = sum + __shfl_xor_sync(kAllLanes, sum, half);
    return sum;
}

// A lane's columns of a segment, in groups of four.
constexpr int kParts = kRowSegment / kRowChains;
using Part = Four[kParts];

// Calls work(index, column) for each group that is in the row.
template <class Work>
__device__ __forceinline__ void each_part(int segment, int width, const Work& work) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
        const int column = static_cast<int>(segment * kRowSegment + i * kRowChains) + 4 * lane();
        if (column < width) work(i, column);
    }
}

template <bool kWide>
__device__ __forceinline__ void fetch(Part& part, const float* row, int segment, int width, float pad = 0.0f) {
    each_part(segment, width, [&](int i, int column) { part[i] = load<kWide>(row, column, width, pad); });
}

// ---- Launches

// Whether rows of this width can be read four floats at a time from all these addresses.
template <class... Pointers>
bool by_four(int64_t width, const Pointers*... at) {
    return width % 4 == 0 && (reinterpret_cast<uintptr_t>(at) | ...) % 16 == 0;
}

struct Blocks {
    cudaStream_t stream;
    int64_t count;
    dim3 threads = kThreads;
    size_t shared_bytes = 0;
};

// Launches nothing for 0 blocks, which a rank with an empty shard asks for.
template <class... Of, class... Given>
void launch(const char* call, void (*kernel)(Of...), const Blocks& blocks, const Given&... given) {
    if (blocks.count == 0) return;
    kernel<<<static_cast<unsigned>(blocks.count), blocks.threads, blocks.shared_bytes, blocks.stream>>>(given...);
    gpu::check(HW4_CUDA_STATUS(cudaGetLastError()), call, __FILE__, __LINE__);
}
#define HW4_LAUNCH(kernel, wide, ...) launch("launch of " #kernel, (wide) ? kernel<true> : kernel<false>, __VA_ARGS__)

} // namespace hw4::step
