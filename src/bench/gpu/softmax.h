// The naive baseline's kernels on scores; cuBLAS computes its products.
#pragma once

#include <cuda_runtime.h>

#include "src/bench/cell.h"

namespace hw4::bench::gpu_side {

// Scores of the element type, [rows][keys]; the rows of all units follow each other.
struct Scores {
    Element element;
    int64_t rows;    // in all units
    int64_t queries; // per unit
    int64_t keys;
    Mask mask;
};

// P = softmax(S), in place; 0 for a key that the row does not see.
void launch_softmax(const Scores& shape, void* scores, cudaStream_t stream);

// dS = P * (dP - rowsum(P * dP)), in place of dP.
void launch_softmax_gradient(const Scores& shape, const void* weights, void* gradients, cudaStream_t stream);

} // namespace hw4::bench::gpu_side
