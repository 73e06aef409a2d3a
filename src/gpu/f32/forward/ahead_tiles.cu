// ahead_tiles: async_tiles with operands loaded a step ahead.
//
// Idea      The loads of a step are issued before the fma of the step before, into a second set of registers.
// Who, Memory, Order   As in register_tiles.
// Limits    The compiler had moved most of them already.
// No help   Two steps ahead, 0.0 % (d = 32) and -0.3 % (d = 128).
#include "src/gpu/f32/forward/tile_launch.cuh"

namespace hw4::gpu {

struct AheadTiles {
    using Lanes = PairedLanes;
    template <class T>
    using Work = WholeRows<T>;
    static constexpr bool kAsync = true;
    static constexpr bool kAhead = true;
    static constexpr bool kWoven = false;
    static constexpr bool kMasked = false;
};

void launch_ahead_tiles(const Launch& launch, cudaStream_t stream) {
    launch_tiles<AheadTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("ahead_tiles");
}

} // namespace hw4::gpu
