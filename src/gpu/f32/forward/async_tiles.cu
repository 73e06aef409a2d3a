// async_tiles: register_tiles with asynchronous copies of its tiles, and lanes placed for 16-byte loads.
//
// Idea      cp.async takes no registers and no waiting: V of a tile is copied while its scores are computed, K of the
//           next tile while its output is. One buffer each is enough, with two barriers per tile. A 16-byte shared load
//           takes two passes instead of four when lanes n and n^1, or n and n^2, read the same address: bit 0 of the
//           lane moves across only, bit 1 down only. Without asynchronous copies this placement gains 0.8 % on t28
//           and 5 % on t29, since warps wait for global memory.
// Work, Memory, Order  As in register_tiles.
// No help   K through registers, transposed 4 x 4 there: the first fma of p*v waited for the loads, 6.6 % of all
//           samples.
#include "src/gpu/f32/forward/tile_kernel.cuh"

namespace hw4::gpu {

struct AsyncTiles : TileChoices {
    static constexpr bool kAlwaysWhole = true;
    static constexpr bool kAlwaysLarge = true;
    static constexpr bool kAsync = true;
};

void launch_async_tiles(const Launch& launch, cudaStream_t stream) {
    launch_tiles<AsyncTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("async_tiles");
}

} // namespace hw4::gpu
