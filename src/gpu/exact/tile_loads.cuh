// Tiles from global to shared memory: transposed through registers, or as they are in the background.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "register_tile.cuh"

namespace hw4::gpu {

// Four columns of a row from global memory. A row that does not exist is read as the last one: its weight is 0, or
// its result is dropped. Columns that do not exist are zero.
template <class T>
__device__ __forceinline__ float4 global4(const float* matrix, int row, int column, const KernelArgs& args) {
    const float* from =
        matrix + static_cast<size_t>(min(row, static_cast<int>(args.tokens) - 1)) * args.qkv_stride + column;
    if (T::kWhole) return load4(from);
    return make_float4(column + 0 < args.dim ? from[0] : 0.0f, column + 1 < args.dim ? from[1] : 0.0f,
                       column + 2 < args.dim ? from[2] : 0.0f, column + 3 < args.dim ? from[3] : 0.0f);
}

// A matrix tile of kRows x kDim, transposed on its way into shared memory: each thread turns 4 x 4 blocks in
// registers. Neighbouring lanes take neighbouring rows, so that the float4 they store lie side by side.
template <class T, int kRows>
struct TransposedTile {
    static constexpr int kBlocks = kRows / 4 * (T::kDim / 4);
    static constexpr int kTurns = kBlocks / T::kThreads;
    static_assert(kBlocks % T::kThreads == 0 && kRows % 32 == 0, "every thread takes as many blocks");

    float4 block[kTurns][4]; // [turn][row of the block]

    static __device__ __forceinline__ int row_of(int turn) {
        return 4 * (index(turn) % 8 + 8 * (index(turn) / 8 / (T::kDim / 4)));
    }
    static __device__ __forceinline__ int column_of(int turn) { return 4 * (index(turn) / 8 % (T::kDim / 4)); }

    __device__ __forceinline__ void load(const float* matrix, int first_row, const KernelArgs& args) {
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                block[turn][i] = global4<T>(matrix, first_row + row_of(turn) + i, column_of(turn), args);
    }

    __device__ __forceinline__ void store(float (*to)[kRows]) const {
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
            const float4(&b)[4] = block[turn];
            store4(&to[column_of(turn) + 0][row_of(turn)], make_float4(b[0].x, b[1].x, b[2].x, b[3].x));
            store4(&to[column_of(turn) + 1][row_of(turn)], make_float4(b[0].y, b[1].y, b[2].y, b[3].y));
            store4(&to[column_of(turn) + 2][row_of(turn)], make_float4(b[0].z, b[1].z, b[2].z, b[3].z));
            store4(&to[column_of(turn) + 3][row_of(turn)], make_float4(b[0].w, b[1].w, b[2].w, b[3].w));
        }
    }

private:
    static __device__ __forceinline__ int index(int turn) { return turn * T::kThreads + static_cast<int>(threadIdx.x); }
};

// V as it is, in the background.
template <class T>
__device__ __forceinline__ void fetch_values(float (*to_rows)[T::kDim], const float* v_gmem, int first_key,
                                             const KernelArgs& args) {
    constexpr int kPieces = T::kKeys * T::kDim / 4;
    static_assert(kPieces % T::kThreads == 0, "every thread takes as many pieces");
#pragma unroll
    for (int piece = 0; piece < kPieces; piece += T::kThreads) {
        const int index = piece + static_cast<int>(threadIdx.x);
        const int key = index / (T::kDim / 4);
        const int column = index % (T::kDim / 4) * 4;
        float* to = &to_rows[key][column];
        if (T::kWhole) {
            const int row = min(first_key + key, static_cast<int>(args.tokens) - 1);
            __pipeline_memcpy_async(to, v_gmem + static_cast<size_t>(row) * args.qkv_stride + column, 16);
        } else {
            store4(to, global4<T>(v_gmem, first_key + key, column, args));
        }
    }
    __pipeline_commit();
}

} // namespace hw4::gpu
