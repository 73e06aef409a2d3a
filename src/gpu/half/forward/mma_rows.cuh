// Rows of 16-bit numbers in shared memory for mma.sync, for a block of kMmaThreads. They are kDim + 8 elements apart,
// so that eight rows' 16-byte pieces are in different banks.
#pragma once

#include "src/gpu/common/shared_memory.cuh"

namespace hw4::gpu::half_forward {

constexpr int kMmaThreads = 128;

// Copies rows from global to shared memory; elements beyond `dim` or the last row become 0.
template <int kDim, int kCount>
__device__ __forceinline__ void load_rows(uint16_t (&to)[kCount][kDim + 8], const uint16_t* from, int64_t distance,
                                          int rows, int dim, bool whole_pieces) {
    constexpr int kPieces = kDim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kCount * kPieces; i += kMmaThreads) {
        const int row = i / kPieces;
        const int column = i % kPieces * 8;
        uint4 piece = make_uint4(0, 0, 0, 0);
        if (row < rows && column < dim) {
            const uint16_t* const at = from + row * distance + column;
            if (whole_pieces) {
                piece = *reinterpret_cast<const uint4*>(at);
            } else {
                const auto word = [&](int k) {
                    const uint32_t low = column + k < dim ? at[k] : 0u;
                    const uint32_t high = column + k + 1 < dim ? at[k + 1] : 0u;
                    return high << 16 | low;
                };
                piece = make_uint4(word(0), word(2), word(4), word(6));
            }
        }
        *reinterpret_cast<uint4*>(&to[row][column]) = piece;
    }
}

// Loads four 8 x 8 matrices, one row's address from each lane; kTurned: transposed.
template <bool kTurned>
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const uint16_t* row) {
    if constexpr (kTurned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address_of(row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address_of(row))
                     : "memory");
}

} // namespace hw4::gpu::half_forward
