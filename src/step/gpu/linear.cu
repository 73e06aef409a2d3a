#include "src/step/gpu/product.cuh"

namespace hw4::step {

void launch_linear(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream) {
    launch_product<Lies::along_terms, Lies::along_terms>(args, plan, stream);
}

} // namespace hw4::step
