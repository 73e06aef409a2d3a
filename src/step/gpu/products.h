// The products of a linear operation on the GPU: which tiles, and what they need. The kernel is in product.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/gpu/device.h"
#include "src/step/linear.h"

namespace hw4::step {

constexpr int kTileRows = 128;

// What a kernel is launched with. Steps are in floats, between rows of memory.
struct ProductArgs {
    const float* a = nullptr;
    const float* b = nullptr;
    const float* residual = nullptr; // null: none; it may be `out`
    float* out = nullptr;
    float* waiting = nullptr; // tiles of sums, as many as the plan says
    int rows = 0;
    int columns = 0;
    int a_step = 0;
    int b_step = 0;
    int terms = 0;
    int leaf = 0; // terms of a leaf; the last may have fewer
    int leaves = 0;
    int tiles_down = 0;
    int tiles = 0;
    int whole = 0;         // the first so many; of the other tiles each leaf is a unit, which add_leaves adds up
    int units = 0;         // whole tiles and leaves of others
    int waiting_slots = 0; // of a block
    bool tree = false;     // leaves are added in TOKEN-SUM's tree, else in order
    bool by_four = false;  // `out` and `residual` are written and read by four floats
};

struct ProductPlan {
    int tile_columns = 0;
    bool copies_four = false; // rows of factors that lie across the terms are copied by 16 bytes
    int blocks = 0;
    size_t waiting_floats = 0;
};

// Completes the args, of which the factors, sizes and leaves are there, and says what `waiting` must have.
// Throws Error (bad_data) where there are more tiles than a launch can count.
ProductPlan plan_product(ProductKind kind, ProductArgs& args, const gpu::Device& device);

void launch_linear(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream);
void launch_linear_back(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream);
void launch_linear_weights(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream);

} // namespace hw4::step
