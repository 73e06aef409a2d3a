// Columns of a block of rows, as kernels keep them, on their way out.
#pragma once

#include <cstdint>

#include "src/base/inline.h"

namespace hw4::cpu {

// out[row][x] = columns[x][row], of columns `stride` apart. A machine V brings transpose4, of 4 x 4 numbers.
template <class V>
HW4_INLINE void store_turned(const float* columns, int64_t stride, int64_t rows, int64_t dim, float* out) {
    const int64_t whole_rows = rows / 4 * 4;
    const int64_t whole_dim = dim / 4 * 4;
    for (int64_t row = 0; row < whole_rows; row += 4)
        for (int64_t x = 0; x < whole_dim; x += 4)
            V::transpose4(columns + x * stride + row, stride, out + row * dim + x, dim);
    const auto one_by_one = [&](int64_t first_row, int64_t end_row, int64_t first_column) {
        for (int64_t row = first_row; row < end_row; ++row)
            for (int64_t x = first_column; x < dim; ++x) out[row * dim + x] = columns[x * stride + row];
    };
    one_by_one(0, whole_rows, whole_dim);
    one_by_one(whole_rows, rows, 0);
}

} // namespace hw4::cpu
