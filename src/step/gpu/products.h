// The matrix products of a linear operation on the GPU: tiles and memory. The kernel is in product.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/gpu/device.h"
#include "src/step/linear.h"

namespace hw4::step {

constexpr int kTileRows = 128;

// The arguments of the kernel. A step is the distance of two rows in memory, in floats.
struct ProductArgs {
    const float* a = nullptr;
    const float* b = nullptr;
    const float* residual = nullptr; // null: none; it may be `out`
    float* out = nullptr;
    float* waiting = nullptr; // tiles of sums, ProductPlan::waiting_floats
    int rows = 0;
    int columns = 0;
    int a_step = 0;
    int b_step = 0;
    int terms = 0;
    int leaf = 0; // terms of a leaf; the last may have fewer
    int leaves = 0;
    int tiles_down = 0;
    int tiles = 0;
    int whole = 0;         // the first tiles, each of them a unit; each leaf of the others is a unit (add_leaves)
    int units = 0;         // whole tiles, and leaves of the others
    int waiting_slots = 0; // per block
    bool tree = false;     // adds leaves in TOKEN-SUM's tree, otherwise in order
    bool by_four = false;  // reads `residual` and writes `out` four floats at a time
};

struct ProductPlan {
    int tile_columns = 0;
    bool copies_four = false; // copies 16 bytes of a factor at a time if its terms are not contiguous
    int blocks = 0;
    size_t waiting_floats = 0;
};

// Completes args that have factors, sizes and leaves. The plan has the size of `waiting`. Throws Error (bad_data) if a
// launch cannot count the tiles.
ProductPlan plan_product(ProductKind kind, ProductArgs& args, const gpu::Device& device);

void launch_linear(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream);
void launch_linear_back(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream);
void launch_linear_weights(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream);

} // namespace hw4::step
