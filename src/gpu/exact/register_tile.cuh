// Register tiles: how a block's threads share a tile of scores and outputs, and the outer products they do.
#pragma once

#include "common.cuh"

namespace hw4::gpu {

constexpr int kRowsPerThread = 8;

template <int kDimension, bool kAllColumns, int kLanesAcross, int kKeysPerThread, int kWarpCount, int kBlocksPerSm>
struct Tiling {
    static constexpr int kDim = kDimension;
    static constexpr bool kWhole = kAllColumns; // d == kDim; otherwise columns from d on are zero
    static constexpr int kC = kLanesAcross;
    static constexpr int kR = kWarpSize / kC;
    static constexpr int kKT = kKeysPerThread;
    static constexpr int kCT = kDim / kC; // output columns of a thread
    static constexpr int kKeys = kKT * kC;
    static constexpr int kWarps = kWarpCount;
    static constexpr int kBlocks = kBlocksPerSm;
    static constexpr int kThreads = kWarps * kWarpSize;
    static constexpr int kWarpRows = kRowsPerThread * kR;
    static constexpr int kBlockRows = kWarps * kWarpRows;
    // The lanes that store weights together differ in 4 slots and 2 groups of 4 rows: with 8 banks from slot to slot
    // they meet 8 different groups of banks.
    static constexpr int kPStride = kWarpRows + 8;
    static_assert(kSegmentKeys % kKeys == 0, "a segment must end with a tile");
    static_assert(kKT % 4 == 0 && kCT % 4 == 0, "tiles are read as float4");
    static_assert(kC == 8 || kC == 4, "a thread's keys must fall into whole sum lanes");
    static constexpr int kSums = kSumLanes / kC; // sum lanes of a thread
    // Measured, see the card of outer_product.cu. Rolled: a loop of 4 steps; else unrolled as far as it pays.
    static constexpr bool kRolled = kDim == 32;
    static constexpr int kScoreUnroll = kDim == 128 ? 8 : kScoreColumns;
    static constexpr int kOutputUnroll = kDim == 128 ? 8 : 16;
    static constexpr int kRolledSteps = 4;
};

// Where a thread's tile lies.
struct Position {
    int first_row; // of the block in the batch
    int warp_row;  // of the warp in the block
    int across;    // lane
    int down;
};

template <class T>
__device__ __forceinline__ int row_in_block(const Position& at, int i) {
    return at.warp_row + i / 4 * 4 * T::kR + 4 * at.down + i % 4;
}

__device__ __forceinline__ float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ __forceinline__ void store4(float* to, float4 x) { *reinterpret_cast<float4*>(to) = x; }

// acc[i][j] += a[i] * b[j], back and forth, so that from one fma to the next one factor stays.
template <int kN>
__device__ __forceinline__ void outer(float (&acc)[kRowsPerThread][kN], const float (&a)[kRowsPerThread],
                                      const float (&b)[kN]) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int step = 0; step < kN; ++step) {
            const int j = i % 2 == 0 ? step : kN - 1 - step;
            acc[i][j] = fused(a[i], b[j], acc[i][j]);
        }
}

// kN floats as float4 that lie `step` apart.
template <int kN>
__device__ __forceinline__ void load_fragment(float (&to)[kN], const float* from, int step) {
#pragma unroll
    for (int part = 0; part < kN / 4; ++part) {
        const float4 x = load4(from + part * step);
        to[4 * part + 0] = x.x;
        to[4 * part + 1] = x.y;
        to[4 * part + 2] = x.z;
        to[4 * part + 3] = x.w;
    }
}

// acc += sum over steps of a outer b; the operands of a step are loaded while the step before is computed.
template <int kSteps, int kUnroll, int kN, class Load>
__device__ __forceinline__ void chain(float (&acc)[kRowsPerThread][kN], Load load) {
    float a[2][kRowsPerThread];
    float b[2][kN];
    load(0, a[0], b[0]);
#pragma unroll kUnroll
    for (int step = 0; step < kSteps; ++step) {
        if (step + 1 < kSteps) load(step + 1, a[(step + 1) % 2], b[(step + 1) % 2]);
        outer(acc, a[step % 2], b[step % 2]);
    }
}

// The same as a short loop without a branch in it: the last step loads the first one's operands again, for nothing.
template <int kSteps, int kUnroll, int kN, class Load>
__device__ __forceinline__ void rolled_chain(float (&acc)[kRowsPerThread][kN], Load load) {
    static_assert(kSteps % kUnroll == 0 && kUnroll % 2 == 0, "whole rounds of whole pairs");
    static_assert((kSteps & (kSteps - 1)) == 0, "the step after the last is found by a mask");
    float a[2][kRowsPerThread];
    float b[2][kN];
    load(0, a[0], b[0]);
#pragma unroll 1
    for (int first = 0; first < kSteps; first += kUnroll) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const int next = u + 1 < kUnroll ? first + u + 1 : (first + kUnroll) & (kSteps - 1);
            load(next, a[(u + 1) % 2], b[(u + 1) % 2]);
            outer(acc, a[u % 2], b[u % 2]);
        }
    }
}

} // namespace hw4::gpu
