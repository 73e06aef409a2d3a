// One pass over rows in device memory, for the library: logsumexps from statistics, the extremes that decide whether
// values are within a contract's range, and new rows for a cache.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/contracts/append.h"
#include "src/contracts/f32/forward.h"
#include "src/contracts/row_statistics.h"
#include "src/problem/tensor.h"

namespace hw4::gpu {

// The logsumexp of every row; `one` is the contract's weight of 1 (contract.h).
void logsumexps(const RowStatistics* rows, int64_t count, Scale scale, double one, float* to, cudaStream_t stream);

constexpr int64_t kExtremesRows = 256; // rows of one head in each RowExtremes

// The extremes of some rows of one head, for the checks of domain.h.
struct RowExtremes {
    double largest_sum;      // of magnitudes in a row, in the order of domain.cpp; meaningless if a value is infinite
    int64_t row;             // the first row with this sum, counted in the head
    uint32_t magnitude_bits; // of the largest magnitude; infinities and NaNs are larger than every finite number
};

inline int64_t extremes_of_head(int64_t rows) { return (rows + kExtremesRows - 1) / kExtremesRows; }

// [batch][head][extremes_of_head(rows)]. A table of pages is in device memory, and all its pages exist.
void find_extremes(const Tensor& tensor, const PageTable& pages, int64_t batches, int64_t heads, int64_t rows,
                   int64_t columns, RowExtremes* to, cudaStream_t stream);

// Appends all rows of hw4_append().
void append_rows(const Append& all, cudaStream_t stream);

} // namespace hw4::gpu
