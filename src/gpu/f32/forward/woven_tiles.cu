// woven_tiles: async_tiles with the copies woven into the arithmetic, operands loaded a step ahead, and loops tuned.
//
// Idea      32 copies of K issued at once fill the queue of the memory pipe, and the warp waits. Here a part of V is
//           copied before each block of columns, and K with each round of p*v, a key for each step. The loads of a step
//           are issued before the fma of the previous step, into a second set of registers. And, where measurements
//           show a gain: rounds of 16 steps instead of 8, and the first step of a score peeled (it multiplies instead
//           of adding to cleared registers).
// Work, Memory, Order  As in register_tiles.
// Limits    Found by rewriting the registers of a compiled loop and timing it: an fma reads at most two operands a
//           clock that are not in the reuse cache, one from each parity of register numbers; the compiler arranges for
//           that. But a 16-byte shared load costs 2.8 issue slots, not one: its results seem to compete with results of
//           the fma for the register file. So 64 fma and 4 loads take 75 clocks, 85 % of the fma rate, in any order of
//           the fma. With that, the exponentials and the copies, t28 cannot pass three quarters of that rate with 8 x 8
//           tiles; and 512 blocks on 132 multiprocessors take the time of 528. Larger tiles need more registers: 64
//           scores, 64 of the second block of columns and 64 totals are live together.
// No help   Loads a step ahead alone, t28 +0.7 %: the compiler had moved most of them; two steps ahead, 0.0 % (d = 32)
//           and -0.3 % (d = 128). t28, each against its neighbour: one block of 256 rows with double buffers and one
//           barrier, -0.6 %; rounds of 16 for p*v, -0.3 %; p*v peeled too, -0.1 %; sums or totals added after the
//           barrier while the first operands arrive, 0.0 and -1.4 %; weights four rows at a time, -1.4 %. d = 32: two
//           blocks of 254 registers, t11 -10 %; 8 x 8 outputs (64 rows x 32 keys per warp), t29 -7 %.
#include "src/gpu/f32/forward/tile_kernel.cuh"

namespace hw4::gpu {

void launch_woven_tiles(const Launch& launch, cudaStream_t stream) {
    launch_tiles<WovenTiles>(launch, stream);
    HW4_CUDA_LAUNCHED("woven_tiles");
}

} // namespace hw4::gpu
