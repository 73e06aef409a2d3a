// A decoder-only transformer as CS336 builds it: pre-norm, RMSNorm, RoPE, causal attention, SwiGLU, an untied head, no
// biases. Its parameters lie in one array of floats, tensor after tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hw4::step {

struct Model {
    int64_t width = 0;  // d_model
    int64_t hidden = 0; // d_ff
    int64_t layers = 0;
    int64_t heads = 0;
    int64_t vocabulary = 0;

    int64_t head_width() const { return width / heads; }
};

// Sums of squares take this many elements of a tensor at a time, and shards of the optimizer are cut at multiples of
// it.
constexpr int64_t kSegment = 1024;

// What a tensor begins training as (weights.h).
enum class Initial {
    ones,   // gains
    normal, // standard deviation 1, cut at 3
    scaled, // normal, standard deviation sqrt(2 / (inputs + outputs)), cut at 3 of them
};

struct Parameter {
    std::string name;    // in a checkpoint
    int64_t rows = 1;    // outputs
    int64_t columns = 0; // inputs
    Initial initial = Initial::ones;
    int64_t parts = 1; // matrices of `rows / parts` rows each that are one tensor: q, k, v; gate and up
    size_t first = 0;  // where it begins in the array: a multiple of kSegment; what is between two tensors is 0

    bool is_vector() const { return initial == Initial::ones; }
    size_t count() const { return static_cast<size_t>(rows * columns); }
};

// A layer's tensors, by their places in the list.
struct LayerPlaces {
    size_t attention_norm, qkv, output, feed_norm, gate_up, down;
};

struct Parameters {
    std::vector<Parameter> list; // the embedding, the layers, the last norm, the head
    std::vector<LayerPlaces> layers;
    size_t embedding = 0, norm = 0, head = 0; // places in the list
    size_t floats = 0;                        // of the array, a multiple of kSegment
};

Parameters parameters_of(const Model& model);

} // namespace hw4::step
