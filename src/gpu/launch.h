// What a kernel is launched with.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "src/contracts/row_statistics.h"
#include "src/gpu/device.h"
#include "src/gpu/query_step.h"
#include "src/problem/matrix.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

// Some batches of a case in device memory. Where dim is a multiple of 4, every operand, row, head and batch starts at a
// boundary of four elements, and kernels may take rows as float4. Any other dim may have any distances from dim on:
// packed rows (--copies linear) are dim apart, and kernels take those float by float.
struct Launch {
    Problem problem;
    Device device;
    Matrix<const float> in[kMostInputs]; // in the operation's order
    Matrix<float> out[kMostOutputs]; // apart from all inputs, which may still be read when the first rows are written
    // Of kernels that take operands of 16 bits: where they are of such a type, they are these instead.
    Element element = Element::float32;
    Matrix<const uint16_t> narrow_in[kMostInputs];
    Matrix<uint16_t> narrow_out[kMostOutputs];
    RowStatistics* statistics = nullptr; // of forward, [unit][query]; null: nobody asks for them
    // Of backward: O, where forward was done before, by whoever has its statistics too. None: the launch does it.
    Matrix<const float> forward_out;
    // The query rows of every unit to compute, from a multiple of kQueryStep up to another or the last.
    int64_t first_query = 0;
    int64_t end_query = std::numeric_limits<int64_t>::max();
    void* scratch = nullptr;  // for one launch at a time
    size_t scratch_bytes = 0; // in all; 0: the least that the kernel's plan says

    int64_t queries() const { return std::min(end_query, problem.queries) - first_query; }
};

// Whole batches that follow one another as in a file, from `in` and `out` on, rows so many floats apart.
inline Launch launch_of(const Problem& problem, const Device& device, const float* in, size_t in_row, float* out,
                        size_t out_row, void* scratch, size_t scratch_bytes = 0) {
    Launch launch;
    launch.problem = problem;
    launch.device = device;
    set_operands(launch, in, in_row, out, out_row);
    launch.scratch = scratch;
    launch.scratch_bytes = scratch_bytes;
    return launch;
}

// The same of elements that have 16 bits.
inline Launch launch_of(const Problem& problem, const Device& device, Element element, const uint16_t* in,
                        size_t in_row, uint16_t* out, size_t out_row, void* scratch, size_t scratch_bytes = 0) {
    Launch launch = launch_of(problem, device, nullptr, 0, nullptr, 0, scratch, scratch_bytes);
    const Operation& operation = *problem.operation;
    launch.element = element;
    for (size_t i = 0; i < operation.inputs.size(); ++i)
        launch.narrow_in[i] = operand_at(problem, operation.inputs, i, in, in_row);
    for (size_t i = 0; i < operation.outputs.size(); ++i)
        launch.narrow_out[i] = operand_at(problem, operation.outputs, i, out, out_row);
    return launch;
}

} // namespace hw4::gpu
