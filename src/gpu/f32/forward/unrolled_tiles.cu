// unrolled_tiles: coalesced_tiles with its inner loops unrolled.
//
// Idea      The 32 columns of a chunk and the 32 keys of a tile are written out: no counters, no branches, addresses
//           become constants in the instructions, and loads of later steps start before earlier ones have come. Where
//           nothing is stored in between, the scores, the compiler even takes four floats of q in one load.
// Who       As in coalesced_tiles.
// Memory    As in padded_tiles; 62 to 64 registers, 66 to 86 beyond d = 128.
// Order     As in shared_tiles: unrolling changes no order.
// Limits    p*v stores the running output to shared memory at every step, and the weights come one float at a time.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/f32/forward/row_tiles.cuh"

namespace hw4::gpu {
namespace {

struct UnrolledTiles {
    static constexpr bool kPadded = true;
    static constexpr bool kCoalesced = true;
    static constexpr bool kUnrolled = true; // new on this rung
    static constexpr bool kRegisters = false;
};

} // namespace

void launch_unrolled_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<UnrolledTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("unrolled_tiles");
}

} // namespace hw4::gpu
