#include "src/step/gpu/product.cuh"

namespace hw4::step {

void launch_linear(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream) {
    constexpr Lies kAlong = Lies::along_terms;
    if (plan.tile_columns == 192) return launch_tile<TileShape<12, kAlong, kAlong>>(args, plan, stream);
    if (plan.tile_columns == 128) return launch_tile<TileShape<8, kAlong, kAlong>>(args, plan, stream);
    launch_tile<TileShape<6, kAlong, kAlong>>(args, plan, stream);
}

} // namespace hw4::step
