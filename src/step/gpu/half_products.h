// The three matrix products of a linear operation under bf16: cuBLASLt on factors rounded to bf16, sums in float32. No
// product is split over its terms, so bytes do not depend on the order in which blocks end, only on the sizes, the kind
// of GPU and the version of cuBLAS. dW is one product over all tokens of a micro-batch: with a leaf for each sequence,
// each leaf would read and write dW.
#pragma once

#include <memory>

#include "src/step/gpu/products.h"
#include "src/step/gpu/workspace.h"

namespace hw4::step {

class HalfProducts {
public:
    virtual ~HalfProducts() = default;

    // Computes args.out. The rows of a factor are contiguous. Throws Error: bad_data if cuBLASLt has no such product,
    // out_of_memory.
    virtual void multiply(ProductKind kind, const ProductArgs& args, Workspace& workspace, cudaStream_t stream) = 0;
};

// Throws Error (no_gpu) if cuBLASLt cannot be loaded.
std::unique_ptr<HalfProducts> make_half_products();

} // namespace hw4::step
