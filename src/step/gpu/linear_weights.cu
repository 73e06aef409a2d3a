#include "src/step/gpu/product.cuh"

namespace hw4::step {

void launch_linear_weights(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream) {
    constexpr Lies kAcross = Lies::across_by_four;
    if (!plan.copies_four) return launch_tile<TileShape<6, Lies::across, Lies::across>>(args, plan, stream);
    if (plan.tile_columns == 192) return launch_tile<TileShape<12, kAcross, kAcross>>(args, plan, stream);
    if (plan.tile_columns == 128) return launch_tile<TileShape<8, kAcross, kAcross>>(args, plan, stream);
    launch_tile<TileShape<6, kAcross, kAcross>>(args, plan, stream);
}

} // namespace hw4::step
