// Rows of Q, K and V from global to shared memory, eight keys or query rows at a time.
#pragma once

#include "register_tile.cuh"

namespace hw4::gpu {

// Row `row` of a matrix whose first row (or a column of it) is at `first`. One instruction: 32 x 32 bits + 64.
__device__ __forceinline__ const char* row_at(const char* first, int row, unsigned stride) {
    const char* at;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(row), "r"(stride), "l"(first));
    return at;
}

// The rows of a batch's matrices. A row beyond the last is read as the last: its weight is 0, or its result is dropped.
struct Rows {
    unsigned stride; // bytes
    int last;
    int dim;

    __device__ const char* of(const char* first, int row) const { return row_at(first, min(row, last), stride); }
};

__device__ __forceinline__ Rows rows_of(const KernelArgs& args) {
    return {static_cast<unsigned>(args.qkv_stride * sizeof(float)), static_cast<int>(args.tokens) - 1, args.dim};
}

// A matrix tile that is transposed on its way, float by float: [column][row], columns kStride floats apart. A warp
// copies 4 rows x 8 columns at a time: whole sectors of global memory, 32 different banks of shared memory.
template <class T, int kStride, bool kAsync>
struct TransposedCopy {
    static constexpr int kWarpCols = T::kDim / T::kWarps; // columns of a warp
    static_assert(kWarpCols % 8 == 0, "eight columns at a time");

    const char* from; // this thread's first column
    SharedAddress to; // and its place, in the next row
    int row;          // of the matrix, the thread's next
    int column;

    __device__ TransposedCopy(const float* matrix, int first_row, const float* tile, const Position& at)
        : row(first_row + at.lane % 4), column(at.warp * kWarpCols + at.lane / 4) {
        from = reinterpret_cast<const char*>(matrix + column);
        to = address_of(tile + column * kStride + at.lane % 4);
    }

    // The matrix's next eight rows to the tile's next.
    __device__ __forceinline__ void eight_rows(const Rows& rows) {
#pragma unroll
        for (int y = 0; y < 8; y += 4) {
            const char* line = rows.of(from, row + y);
#pragma unroll
            for (int x = 0; x < kWarpCols; x += 8)
                copy_in<4, kAsync>(to + 4 * (y + x * kStride), line + 4 * x, T::kWhole || column + x < rows.dim);
        }
        row += 8;
        to += 4 * 8;
    }

    // After `count` rows: the next go to the tile's beginning again.
    __device__ __forceinline__ void rewind(int count) { to -= 4 * count; }

    __device__ __forceinline__ void whole_tile(const Rows& rows, int count) {
#pragma unroll 1
        for (int n = 0; n < count; n += 8) eight_rows(rows);
        rewind(count);
    }
};

// A tile of V as it is: [key][column].
template <class T, bool kAsync>
struct PlainCopy {
    static constexpr int kPieces = T::kDim / 4; // of a row
    static constexpr int kKeysAtOnce = T::kThreads / kPieces;

    const char* from; // this thread's four columns
    SharedAddress to; // and their place, for the first key it takes
    int row;          // of the matrix, the thread's next
    int column;

    __device__ PlainCopy(const float* matrix, const float* tile, const Position& at) {
        const int thread = at.warp * kWarpSize + at.lane;
        row = thread / kPieces;
        column = thread % kPieces * 4;
        from = reinterpret_cast<const char*>(matrix + column);
        to = address_of(tile + row * T::kDim + column);
    }

    // The matrix's next kCount rows to the tile's from `place` on.
    template <int kCount>
    __device__ __forceinline__ void next_rows(const Rows& rows, int place) {
        static_assert(kCount % kKeysAtOnce == 0, "every thread takes as many pieces");
#pragma unroll
        for (int y = 0; y < kCount; y += kKeysAtOnce) {
            const char* line = rows.of(from, row + y);
            const SharedAddress place_of_key = to + 4 * T::kDim * (place + y);
            if (T::kWhole) {
                copy_in<16, kAsync>(place_of_key, line, true);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    copy_in<4, kAsync>(place_of_key + 4 * e, line + 4 * e, column + e < rows.dim);
            }
        }
        row += kCount;
    }
};

} // namespace hw4::gpu
