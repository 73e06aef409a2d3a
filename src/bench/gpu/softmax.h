// What the naive baseline does with its scores, beside cuBLAS's products.
#pragma once

#include <cuda_runtime.h>

#include "src/bench/cell.h"

namespace hw4::bench::gpu_side {

// Scores of the element type, [rows][keys], the rows of all units one after the other.
struct Scores {
    Element element;
    int64_t rows;    // of all units
    int64_t queries; // of a unit
    int64_t keys;
    Mask mask;
};

// P = softmax(S), in place; of a key that a row does not see it is 0.
void launch_softmax(const Scores& shape, void* scores, cudaStream_t stream);

// dS = P * (dP - rowsum(P * dP)), in the place of dP.
void launch_softmax_gradient(const Scores& shape, const void* weights, void* gradients, cudaStream_t stream);

} // namespace hw4::bench::gpu_side
