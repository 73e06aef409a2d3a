// Columns of a block of rows, as kernels keep them, to where the block's output is stored.
#pragma once

#include "src/cpu/block_kernel.h"

namespace hw4::cpu {

constexpr int64_t kMostTurnedColumns = 1024;

// out[first + row][x] = columns[x][row], rounded to the block's element, of columns `stride` apart. A machine V brings
// transpose4, of 4 x 4 numbers.
template <class V>
HW4_INLINE void store_turned(const float* columns, int64_t stride, const RowBlock& block, int64_t first, int64_t rows) {
    const int64_t dim = block.dim;
    alignas(64) float room[4 * kMostTurnedColumns];
    for (int64_t row = 0; row < rows; row += 4) {
        const int64_t count = rows - row < 4 ? rows - row : 4;
        const int64_t at = (first + row) * dim;
        float* const out = block.element == Element::float32 ? static_cast<float*>(block.out) + at : room;
        int64_t x = 0;
        for (; count == 4 && x + 4 <= dim; x += 4) V::transpose4(columns + x * stride + row, stride, out + x, dim);
        for (; x < dim; ++x)
            for (int64_t i = 0; i < count; ++i) out[i * dim + x] = columns[x * stride + row + i];
        if (block.element != Element::float32)
            narrow(block.element, room, static_cast<size_t>(count * dim), static_cast<uint16_t*>(block.out) + at);
    }
}

} // namespace hw4::cpu
