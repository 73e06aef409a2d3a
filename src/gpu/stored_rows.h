// Rows of a case as they are stored in 16 bits, widened to floats and narrowed again, for kernels that take floats.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "src/problem/element.h"

namespace hw4::gpu {

// Rows that are stored so, a pitch apart, and the same as packed floats.
struct StoredRows {
    Element element;
    void* stored;
    size_t pitch_bytes;
    float* floats;
    int64_t rows;
    int64_t dim;
};

// Exact.
void widen_rows(const StoredRows& rows, cudaStream_t stream);
// Rounded to nearest even, as when a file is written.
void narrow_rows(const StoredRows& rows, cudaStream_t stream);

} // namespace hw4::gpu
