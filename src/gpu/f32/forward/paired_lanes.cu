// paired_lanes: register_tiles with the lanes placed for 16-byte loads.
//
// Idea      A 16-byte shared load takes two passes instead of four when lanes n and n^1, or n and n^2, read the same
//           address. So bit 0 of the lane moves across only, bit 1 down only.
// Who, Memory, Order   As in register_tiles.
// Limits    As before: nothing overlaps, and loads hardly show while copies are waited for.
#include "src/gpu/f32/forward/tile_launch.cuh"

namespace hw4::gpu {

struct PairedLaneTiles {
    using Lanes = PairedLanes;
    template <class T>
    using Work = WholeRows<T>;
    static constexpr bool kAsync = false;
    static constexpr bool kAhead = false;
    static constexpr bool kWoven = false;
    static constexpr bool kMasked = false;
};

void launch_paired_lanes(const Launch& launch, cudaStream_t stream) {
    launch_tiles<PairedLaneTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("paired_lanes");
}

} // namespace hw4::gpu
