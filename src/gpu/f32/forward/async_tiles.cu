// async_tiles: paired_lanes with its tiles copied in the background.
//
// Idea      cp.async takes no registers and no waiting: V of a tile travels while its scores are computed, K of the
//           next one while its output is. One buffer each is enough, with two barriers a tile.
// Who, Memory, Order   As in register_tiles.
// No help   K through registers, transposed 4 x 4 there: the first fma of p*v waited for the loads, 6.6 % of all
//           samples.
#include "src/gpu/f32/forward/tile_launch.cuh"

namespace hw4::gpu {

struct AsyncTiles {
    using Lanes = PairedLanes;
    template <class T>
    using Work = WholeRows<T>;
    static constexpr bool kAsync = true;
    static constexpr bool kAhead = false;
    static constexpr bool kWoven = false;
    static constexpr bool kMasked = false;
};

void launch_async_tiles(const Launch& launch, cudaStream_t stream) {
    launch_tiles<AsyncTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("async_tiles");
}

} // namespace hw4::gpu
