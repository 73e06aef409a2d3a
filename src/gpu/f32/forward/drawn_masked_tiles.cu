// drawn_tiles under the causal mask.
#include "src/gpu/f32/forward/tile_kernel.cuh"

namespace hw4::gpu {

void launch_masked_drawn_tiles(const Launch& launch, cudaStream_t stream) {
    launch_drawn<View::causal>(launch, stream);
}

} // namespace hw4::gpu
