// Attention with all scores in memory, in float32 and plain loops: the obvious implementation, and the baseline that
// runs out of memory.
#pragma once

#include "src/base/parallel.h"
#include "src/problem/tensor.h"

namespace hw4::bench {

struct NaiveOperands {
    Problem problem; // as many keys as queries per head, and as many heads of both
    int threads = 1;
    Crew* crew = nullptr; // threads for all steps; null: each step starts its own
    Matrix<const float> q, k, v;
    Matrix<float> o;
    float* weights = nullptr; // P, [unit][query][key]
    // For backward, after forward has left `weights`:
    Matrix<const float> d_o;
    Matrix<float> dq, dk, dv;
    float* gradients = nullptr; // dS, with the shape of P
};

// The number of floats in `weights`, and in `gradients`.
inline size_t naive_scores(const Problem& problem) {
    return static_cast<size_t>(problem.units()) * static_cast<size_t>(problem.queries) *
           static_cast<size_t>(problem.keys);
}

// P = softmax(Q K^T / sqrt(d)), O = P V.
void naive_forward(const NaiveOperands& operands);

// dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(P * dP)), dQ = dS K / sqrt(d), dK = dS^T Q / sqrt(d).
void naive_backward(const NaiveOperands& operands);

} // namespace hw4::bench
