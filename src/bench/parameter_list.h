// The parameters of transformers, as many tensors: what data-parallel ranks add up the gradients of in every step.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hw4::bench {

struct Tensor {
    std::string name;
    size_t count = 0;
    int after_layers = 0; // its gradient is there once backward has done so many layers, from the last one down
};

struct Model {
    const char* name;
    const char* idea;
    int layers;
    int width;
    int heads;
    int feed_forward;
    int vocabulary;
    int positions;     // learnt ones; 0: none
    bool in_cs336_way; // separate Q, K, V, a feed-forward with a gate, norms of one vector, no biases

    // In the order in which backward gives their gradients.
    std::vector<Tensor> tensors() const;
};

const std::vector<Model>& models();

size_t count_of(const std::vector<Tensor>& tensors);

// Tensors that are added up in one call.
struct Bucket {
    size_t first = 0; // numbers
    size_t count = 0;
    int after_layers = 0;
};

// Gradients lie one after the other, so that those of a bucket are one vector. A bucket has tensors until one more
// would make it larger than `bytes`; 0: each has one. A tensor is never cut.
std::vector<Bucket> buckets_of(const std::vector<Tensor>& tensors, size_t bytes);

} // namespace hw4::bench
