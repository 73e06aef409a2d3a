// The three products of a linear operation under bf16: cuBLASLt on factors rounded to bf16, sums in float32. No product
// is split over its terms, so that no order of arrival is in the bytes: they depend on the sizes, the kind of GPU and
// the cuBLAS. All tokens of a micro-batch are one product for dW: leaves of one sequence would write and read dW once
// for each.
#pragma once

#include <memory>

#include "src/step/gpu/products.h"
#include "src/step/gpu/workspace.h"

namespace hw4::step {

class HalfProducts {
public:
    virtual ~HalfProducts() = default;

    // args.out of the args' factors and sizes; each row of a factor follows the one before. Throws Error (bad_data)
    // where cuBLASLt has no such product, out_of_memory.
    virtual void multiply(ProductKind kind, const ProductArgs& args, Workspace& workspace, cudaStream_t stream) = 0;
};

// Throws Error (no_gpu) where cuBLASLt cannot be loaded.
std::unique_ptr<HalfProducts> make_half_products();

} // namespace hw4::step
