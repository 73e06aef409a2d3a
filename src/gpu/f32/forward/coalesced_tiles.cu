// coalesced_tiles: padded_tiles with loads along the rows.
//
// Idea      When loading, lane = column of the tile: the 32 lanes of a warp read 128 bytes side by side, where a lane
//           for each row of the tile makes them read 4 bytes in 32 places.
// Who       Warp w loads row w of a tile (and row w + 16 where a block has 16 warps); else as in shared_tiles.
// Memory    As in padded_tiles.
// Order     As in shared_tiles.
// Limits    Every fma waits for its own two shared loads, and for the loop's counting and branch.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/f32/forward/row_tiles.cuh"

namespace hw4::gpu {
namespace {

struct CoalescedTiles {
    static constexpr bool kPadded = true;
    static constexpr bool kCoalesced = true; // new on this rung
    static constexpr bool kUnrolled = false;
    static constexpr bool kRegisters = false;
};

} // namespace

void launch_coalesced_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<CoalescedTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("coalesced_tiles");
}

} // namespace hw4::gpu
