// shared_tiles: tiles in shared memory, the plainest way.
//
// Idea      32 query rows share every key: a block brings 32 keys at a time into shared memory and all its rows read
//           them there, so that K and V leave global memory once for 32 rows where plain_rows reads them for each.
// Who       A block of 32 warps takes 32 query rows of a batch and walks over all keys; warp = query row. For the
//           scores lane = key, for the output lane = column (one in each chunk of 32 columns). When loading, lane = row
//           of the tile: neighbouring lanes read a whole row apart. No inner loop is unrolled.
// Memory    Q 32 x D, one chunk of K or V 32 x 32, weights 32 x 32 and the running output 32 x D: 16 KiB for D = 32,
//           24 for 64, 40 for 128. With D = 256 that would be 72, so blocks have 16 rows there: 38 KiB, within the 48
//           that every card grants. The segments' totals wait in the output, in global memory. Registers hold a lane's
//           score, its sum of weights and the row's reference: 38 to 61.
// Order     The contract's: a chunk of K is one block of the score's columns; lanes 0..7 of a warp hold the eight
//           sums; p*v in key order; after 64 keys the running output is folded into the totals.
// Limits    The 32 lanes that read a column of K meet one bank: 32 turns for each load.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/f32/forward/row_tiles.cuh"

namespace hw4::gpu {
namespace {

struct SharedTiles {
    static constexpr bool kPadded = false;
    static constexpr bool kCoalesced = false;
    static constexpr bool kUnrolled = false;
    static constexpr bool kRegisters = false;
};

} // namespace

void launch_shared_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<SharedTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("shared_tiles");
}

} // namespace hw4::gpu
