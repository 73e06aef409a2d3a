// The rungs shared_tiles to register_rows: one kernel (row_tiles.cuh) with one more choice made on each.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/row_tiles.cuh"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {

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
void launch_shared_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::shared>>(launch, stream);
    HW4_CUDA_LAUNCHED("shared_tiles");
}

// padded_tiles: shared_tiles without bank conflicts.
//
// Idea      The rows of the K and V tile lie 33 floats apart: 32 lanes that read down a column meet 32 different banks,
//           where rows of 32 floats put them all into one.
// Who       As in shared_tiles.
// Memory    As in shared_tiles, and 128 bytes more for the padding. Q and the weights need none: a warp reads its row
//           of them at one address (a broadcast).
// Order     As in shared_tiles.
// Limits    Each load from global memory touches 32 rows for 32 floats.
void launch_padded_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::padded>>(launch, stream);
    HW4_CUDA_LAUNCHED("padded_tiles");
}

// coalesced_tiles: padded_tiles with loads along the rows.
//
// Idea      When loading, lane = column of the tile: the 32 lanes of a warp read 128 bytes side by side, where a lane
//           for each row of the tile makes them read 4 bytes in 32 places.
// Who       Warp w loads row w of a tile (and row w + 16 where a block has 16 warps); else as in shared_tiles.
// Memory    As in padded_tiles.
// Order     As in shared_tiles.
// Limits    Every fma waits for its own two shared loads, and for the loop's counting and branch.
void launch_coalesced_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::coalesced>>(launch, stream);
    HW4_CUDA_LAUNCHED("coalesced_tiles");
}

// unrolled_tiles: coalesced_tiles with its inner loops unrolled.
//
// Idea      The 32 columns of a chunk and the 32 keys of a tile are written out: no counters, no branches, addresses
//           become constants in the instructions, and loads of later steps start before earlier ones have come. Where
//           nothing is stored in between, the scores, the compiler even takes four floats of q in one load.
// Who       As in coalesced_tiles.
// Memory    As in padded_tiles; 62 to 64 registers, 66 to 86 beyond d = 128.
// Order     As in shared_tiles: unrolling changes no order.
// Limits    p*v stores the running output to shared memory at every step, and the weights come one float at a time.
void launch_unrolled_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::unrolled>>(launch, stream);
    HW4_CUDA_LAUNCHED("unrolled_tiles");
}

// register_rows: unrolled_tiles with the rows' output in registers.
//
// Idea      What only one thread uses needs no memory: a lane's columns of the running output and of the totals stay
//           in registers for all keys. Nothing is stored in between any more, so the compiler takes four weights, like
//           four floats of q, in one load.
// Who       As in unrolled_tiles; 32 query rows a block for every D.
// Memory    Q 32 x D, one chunk of K or V 32 x 33, weights 32 x 32: 12.1 KiB for D = 32, 16.1 for 64, 24.1 for 128,
//           40.1 for 256. 58 to 64 registers; 1024 threads can have no more.
// Order     As in shared_tiles.
// Limits    5 shared loads for 4 fma. At a load a clock and multiprocessor that alone bounds it at a fifth of what the
//           fma units do.
void launch_register_rows(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RegisterRows>(launch, stream);
    HW4_CUDA_LAUNCHED("register_rows");
}

} // namespace hw4::gpu
