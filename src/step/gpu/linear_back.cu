#include "src/step/gpu/product.cuh"

namespace hw4::step {

void launch_linear_back(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream) {
    if (!plan.copies_four) return launch_tile<TileShape<6, Lies::along_terms, Lies::across>>(args, plan, stream);
    launch_product<Lies::along_terms, Lies::across_by_four>(args, plan, stream);
}

} // namespace hw4::step
