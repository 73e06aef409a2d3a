// Copies rows of Q, K and V from global to shared memory, a few at a time.
#pragma once

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/f32/forward/register_tile.cuh"

namespace hw4::gpu {

// kBytes from global to shared memory: asynchronously, or through a register. If not `there`: zeros.
template <int kBytes, bool kAsync>
__device__ __forceinline__ void copy_in(SharedAddress to, const char* from, bool there) {
    if (kAsync) {
        copy_async<kBytes>(pointer_to(to), from, there);
    } else if (kBytes == 16) {
        *reinterpret_cast<float4*>(pointer_to(to)) = *reinterpret_cast<const float4*>(from); // d is whole: always there
    } else {
        *pointer_to(to) = there ? *reinterpret_cast<const float*>(from) : 0.0f;
    }
}

// Row `row` of a matrix with its first row (or a column of it) at `first`. One instruction: 32 x 32 bits + 64.
__device__ __forceinline__ const char* row_at(const char* first, int row, unsigned stride) {
    const char* at;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(row), "r"(stride), "l"(first));
    return at;
}

// The rows of one of a unit's matrices. A row beyond the last is read as the last: its weight is 0, or its result is
// dropped.
struct Rows {
    unsigned stride; // bytes
    int last;
    int dim;

    __device__ const char* of(const char* first, int row) const { return row_at(first, min(row, last), stride); }
};

__device__ __forceinline__ Rows rows_of(const Heads<const float>& matrix, int64_t count, int dim) {
    return {static_cast<unsigned>(matrix.row * sizeof(float)), static_cast<int>(count) - 1, dim};
}

// A matrix tile that the copy transposes, float by float: [column][row], columns kStride floats apart. A warp copies 4
// rows x 8 columns at a time: whole sectors of global memory, 32 different banks of shared memory. A thread copies four
// times that, 32 columns, from one address.
template <class T, int kStride, bool kAsync>
struct TransposedCopy {
    static constexpr int kColumns = 32;                  // per warp
    static constexpr int kRowWarps = T::kDim / kColumns; // for a row
    static constexpr int kRowsAtOnce = 4 * T::kWarps / kRowWarps;
    static_assert(T::kWarps % kRowWarps == 0 && T::kKeys % kRowsAtOnce == 0, "every warp copies as much");
    static_assert(T::kRows % kRowsAtOnce == 0, "Q too comes in whole steps");

    const char* from; // this thread's first column
    SharedAddress to; // its place, for the next row
    int row;          // of the matrix: the thread's next row
    int column;

    TransposedCopy() = default;
    __device__ TransposedCopy(const float* matrix, int first_row, const float* tile, const Position& at) {
        const int place = at.warp / kRowWarps * 4 + at.lane % 4; // place of the first row in the tile
        row = first_row + place;
        column = at.warp % kRowWarps * kColumns + at.lane / 4;
        from = reinterpret_cast<const char*>(matrix + column);
        to = address_of(tile + column * kStride + place);
    }

    // Copies the matrix's next kRowsAtOnce rows to the tile's next.
    __device__ __forceinline__ void next_rows(const Rows& rows) {
        const char* line = rows.of(from, row);
#pragma unroll
        for (int x = 0; x < kColumns; x += 8)
            copy_in<4, kAsync>(to + 4 * x * kStride, line + 4 * x, T::kWhole || column + x < rows.dim);
        row += kRowsAtOnce;
        to += 4 * kRowsAtOnce;
    }

    // Called after `count` rows: the next rows go to the tile's beginning again.
    __device__ __forceinline__ void rewind(int count) { to -= 4 * count; }

    // The same rows once more.
    __device__ __forceinline__ void go_back(int count) { row -= count; }

    __device__ __forceinline__ void whole_tile(const Rows& rows, int count) {
#pragma unroll 1
        for (int n = 0; n < count; n += kRowsAtOnce) next_rows(rows);
        rewind(count);
    }
};

// A tile of V, not transposed: [key][column].
template <class T, bool kAsync>
struct PlainCopy {
    static constexpr int kPieces = T::kDim > 32 ? 2 : 1; // of four columns, per thread and key
    static constexpr int kKeyThreads = T::kDim / 4 / kPieces;
    static constexpr int kKeysAtOnce = T::kThreads / kKeyThreads;

    const char* from; // this thread's first four columns
    SharedAddress to; // their place, for the thread's first key
    int row;          // of the matrix: the thread's next row
    int column;

    __device__ PlainCopy(const float* matrix, int first_row, const float* tile, const Position& at) {
        const int thread = at.warp * kWarpSize + at.lane;
        const int key = thread / kKeyThreads;
        row = first_row + key;
        column = thread % kKeyThreads * 4;
        from = reinterpret_cast<const char*>(matrix + column);
        to = address_of(tile + key * T::kDim + column);
    }

    // Copies the matrix's next kCount rows to the tile's from `place` on.
    template <int kCount>
    __device__ __forceinline__ void next_rows(const Rows& rows, int place) {
        static_assert(kCount % kKeysAtOnce == 0, "every thread takes as many pieces");
#pragma unroll
        for (int y = 0; y < kCount; y += kKeysAtOnce) {
            const char* line = rows.of(from, row + y);
            const SharedAddress place_of_key = to + 4 * T::kDim * (place + y);
#pragma unroll
            for (int x = 0; x < 4 * kKeyThreads * kPieces; x += 4 * kKeyThreads) {
                if (T::kWhole) {
                    copy_in<16, kAsync>(place_of_key + 4 * x, line + 4 * x, true);
                } else {
#pragma unroll
                    for (int e = x; e < x + 4; ++e)
                        copy_in<4, kAsync>(place_of_key + 4 * e, line + 4 * e, column + e < rows.dim);
                }
            }
        }
        row += kCount;
    }

    // The same rows once more.
    __device__ __forceinline__ void go_back(int count) { row -= count; }
};

} // namespace hw4::gpu
