// The size of a problem: B batches of N tokens with d features, and the sizes that follow from it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hw4 {

struct Shape {
    int64_t batches = 0; // B
    int64_t tokens = 0;  // N
    int64_t dim = 0;     // d

    // A Shape is only made after the products below were checked to fit (case_file.cpp).
    size_t matrix_floats() const { return static_cast<size_t>(tokens) * static_cast<size_t>(dim); }
    size_t batch_input_floats() const { return 3 * matrix_floats(); } // Q, K, V
    int64_t batch_input_rows() const { return 3 * tokens; }
    int64_t input_rows() const { return batches * batch_input_rows(); }
    int64_t output_rows() const { return batches * tokens; }
    size_t row_bytes() const { return static_cast<size_t>(dim) * sizeof(float); }
    size_t batch_input_bytes() const { return batch_input_floats() * sizeof(float); }
    size_t batch_output_bytes() const { return matrix_floats() * sizeof(float); }
    size_t input_bytes() const { return static_cast<size_t>(batches) * batch_input_bytes(); }
    size_t output_bytes() const { return static_cast<size_t>(batches) * batch_output_bytes(); }

    // 4*B*N*N*d: two products of N*N*d multiply-adds. A double, since the count can pass 2^64.
    double flops() const {
        return 4.0 * static_cast<double>(batches) * static_cast<double>(tokens) * static_cast<double>(tokens) *
               static_cast<double>(dim);
    }
};

} // namespace hw4
