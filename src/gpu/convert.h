// Tensors of one element as tensors of another: widened, which is exact, or rounded to nearest even.
#pragma once

#include <cuda_runtime.h>

#include "src/problem/tensor.h"

namespace hw4::gpu {

constexpr int kMostConverted = 5; // tensors at once: those of a backward launch

// Rows of all heads of a tensor, and where they go.
struct RowsOfHeads {
    Tensor from;
    Tensor to;
    int64_t batches = 0;
    int64_t heads = 0;      // of a batch
    int64_t rows = 0;       // of a head
    int64_t columns = 0;    // of a row
    int64_t to_columns = 0; // the same, or more: zeros after the others
};

// Of all tensors `from` has the same element, and so has `to`.
void convert_rows(const RowsOfHeads* list, int count, cudaStream_t stream);

} // namespace hw4::gpu
