// drawn_tiles under the causal mask, with a window.
#include "src/gpu/f32/forward/tile_kernel.cuh"

namespace hw4::gpu {

void launch_window_drawn_tiles(const Launch& launch, cudaStream_t stream) {
    launch_drawn<View::window>(launch, stream);
}

} // namespace hw4::gpu
