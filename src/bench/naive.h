// Attention with all scores in memory: the obvious implementation, as one writes it first in PyTorch, and the baseline
// that runs out of memory.
#pragma once

#include <memory>

#include "src/step/attention.h"

namespace hw4::bench {

// The number of scores, a weight or a gradient for each pair of rows.
inline size_t naive_scores(const Problem& problem) {
    return static_cast<size_t>(problem.units()) * static_cast<size_t>(problem.queries) *
           static_cast<size_t>(problem.keys);
}

class NaiveAttention {
public:
    virtual ~NaiveAttention() = default;

    // There are as many keys as queries per head, and as many heads of both. Scores are [unit][query][key], of the
    // operands' type. Throws Unsupported for a type that it does not take.
    // Forward: P = softmax(Q K^T / sqrt(d)), which goes to `weights`, O = P V. Backward, after forward: dV = P^T dO, dP
    // = dO V^T, dS = P * (dP - rowsum(P * dP)), which goes to `gradients`, dQ = dS K / sqrt(d), dK = dS^T Q / sqrt(d).
    // On a GPU the work goes on in this stream after the call has returned.
    virtual void compute(const step::Attention& of, void* weights, void* gradients, void* stream = nullptr) = 0;
};

std::unique_ptr<NaiveAttention> cpu_naive(int threads); // float32, in plain loops
std::unique_ptr<NaiveAttention> gpu_naive();            // products by cuBLAS. Throws Unsupported, Error (no_gpu)

} // namespace hw4::bench
