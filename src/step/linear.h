// The three products of a linear operation, of row-major matrices without gaps: out(row, column) is the sum over terms
// of a(row, term) * b(column, term).
//
//   linear          Y = X W^T     terms are inputs: both factors lie along the terms
//   linear_back     dX = dY W     terms are outputs: dY lies along them, W across
//   linear_weights  dW = dY^T X   terms are tokens: both lie across
#pragma once

#include <cstdint>

namespace hw4::step {

enum class ProductKind { linear, linear_back, linear_weights };

struct LinearProduct {
    ProductKind kind;
    const float *a, *b;
    float* out;
    int64_t tokens, inputs, outputs;
    int64_t context = 0;             // tokens of a sequence, for linear_weights alone
    const float* residual = nullptr; // added to linear's; null: none; it may be `out`

    int64_t rows() const { return kind == ProductKind::linear_weights ? outputs : tokens; }
    int64_t columns() const { return kind == ProductKind::linear ? outputs : inputs; }
    int64_t terms() const {
        return kind == ProductKind::linear ? inputs : kind == ProductKind::linear_back ? outputs : tokens;
    }
    bool a_along() const { return kind != ProductKind::linear_weights; }
    bool b_along() const { return kind == ProductKind::linear; }
};

} // namespace hw4::step
