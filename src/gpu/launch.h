// The arguments of a kernel's launch.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "src/contracts/row_statistics.h"
#include "src/gpu/device.h"
#include "src/problem/problem.h"
#include "src/problem/tensor.h"

namespace hw4::gpu {

// Some batches of a case in device memory. If dim is a multiple of 4, every row of every tensor starts at a multiple of
// four elements, and kernels read four at a time. With any other dim, rows may be any distance apart.
struct Launch {
    Problem problem; // its element is that of all tensors
    Device device;
    Tensor in[kMostInputs];   // in the operation's order
    Tensor out[kMostOutputs]; // no overlap with inputs, which may still be read when the first rows are written
    // Problems by lengths: the keys of each batch, [batch], in device memory. A kernel clamps them to 0..problem.keys.
    const int32_t* lengths = nullptr;
    // Problems by pages: the table, in device memory. A kernel reads no page that does not exist.
    PageTable pages;
    RowStatistics* statistics = nullptr; // forward: written, [unit][query]; null: not wanted
    // Backward only: O of an earlier forward pass; its statistics are in `statistics`. None: the launch recomputes it.
    Tensor forward_out;
    // The query rows to compute in every unit, from a multiple of kQueryStep up to another or the last row.
    int64_t first_query = 0;
    int64_t end_query = std::numeric_limits<int64_t>::max();
    void* scratch = nullptr;  // used by one launch at a time
    size_t scratch_bytes = 0; // in all; 0: the least that the kernel's plan says

    int64_t queries() const { return std::min(end_query, problem.queries) - first_query; }
};

// Whole batches of the problem's element, contiguous as in a file, from `in` and `out` on, with `in_row` and `out_row`
// elements from one row to the next.
inline Launch launch_of(const Problem& problem, const Device& device, const void* in, size_t in_row, void* out,
                        size_t out_row, void* scratch, size_t scratch_bytes = 0) {
    Launch launch;
    launch.problem = problem;
    launch.device = device;
    const Operation& operation = *problem.operation;
    for (size_t i = 0; i < operation.inputs.size(); ++i)
        launch.in[i] = tensor_at(problem, operation.inputs, i, in, in_row);
    for (size_t i = 0; i < operation.outputs.size(); ++i)
        launch.out[i] = tensor_at(problem, operation.outputs, i, out, out_row);
    launch.scratch = scratch;
    launch.scratch_bytes = scratch_bytes;
    return launch;
}

constexpr int kMostConverted = 5; // tensors at once: a backward launch has so many

// Rows of all heads of a tensor to convert to another element, and their destination.
struct RowsOfHeads {
    Tensor from;
    Tensor to;
    int64_t batches = 0;
    int64_t heads = 0;      // of a batch
    int64_t rows = 0;       // of a head
    int64_t columns = 0;    // of a row
    int64_t to_columns = 0; // at least `columns`; the added columns are zeros
};

// Widens, which is exact, or rounds to nearest even. All `from` have the same element, and all `to`.
void convert_rows(const RowsOfHeads* list, int count, cudaStream_t stream);

} // namespace hw4::gpu
