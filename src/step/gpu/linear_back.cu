#include "src/step/gpu/product.cuh"

namespace hw4::step {

void launch_linear_back(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream) {
    constexpr Lies kAlong = Lies::along_terms, kAcross = Lies::across_by_four;
    if (!plan.copies_four) return launch_tile<TileShape<6, kAlong, Lies::across>>(args, plan, stream);
    if (plan.tile_columns == 192) return launch_tile<TileShape<12, kAlong, kAcross>>(args, plan, stream);
    if (plan.tile_columns == 128) return launch_tile<TileShape<8, kAlong, kAcross>>(args, plan, stream);
    launch_tile<TileShape<6, kAlong, kAcross>>(args, plan, stream);
}

} // namespace hw4::step
