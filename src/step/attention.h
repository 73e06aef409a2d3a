// Causal attention of a micro-batch, on tensors where they stand in rows of whole tokens: a row of qkv has q, k and v,
// one after the other, and each of these the model's heads.
#pragma once

#include "src/contracts/row_statistics.h"
#include "src/problem/tensor.h"
#include "src/step/model.h"

namespace hw4::step {

struct Attention {
    Problem problem;
    Tensor in[kMostInputs] = {};         // in the operation's order
    Tensor out[kMostOutputs] = {};       // apart from all inputs
    Tensor forward_out = {};             // backward alone: O
    RowStatistics* statistics = nullptr; // [sequence][head][token]; forward writes them, backward reads them

    bool is_backward() const { return problem.operation == &kBackward; }
    int64_t floats() const { return problem.units() * problem.queries * problem.dim; } // of a tensor
};

// Tensor `index` of the `tensors` tensors that lie side by side in `rows`.
inline Tensor heads_of(const Problem& problem, const float* rows, int64_t index, int64_t tensors) {
    const int64_t width = problem.heads * problem.dim;
    auto* const first = const_cast<float*>(rows) + index * width; // NOLINT: inputs are not written
    return {first, Element::float32, problem.queries * tensors * width, problem.dim, tensors * width};
}

inline Attention attention_of(const Operation& operation, const float* qkv, int64_t sequences, int64_t context,
                              const Model& model) {
    Attention of{Problem(sequences, context, model.head_width())};
    of.problem.heads = of.problem.kv_heads = model.heads;
    of.problem.mask = Mask::causal;
    of.problem.operation = &operation;
    for (int64_t i = 0; i < 3; ++i) of.in[i] = heads_of(of.problem, qkv, i, 3);
    return of;
}

} // namespace hw4::step
