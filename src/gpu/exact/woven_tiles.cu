// woven_tiles: ahead_tiles with the copies woven into the arithmetic, and loops tuned. The top of the ladder.
//
// Idea      32 copies of K issued at once fill the queue of the memory pipe, and the warp waits. Here V goes a part
//           before each block of columns, K eight keys with each round of p*v. And as far as measured to pay: rounds of
//           16 steps instead of 8, and the first step of a score peeled (it multiplies instead of adding to cleared
//           registers).
// Who, Memory, Order   As in register_tiles. 4 bytes spilled at d = 32 on sm_90, which the rungs below cannot say:
//           part of the step at t29.
// Measured  H200, TFLOP/s in one run with cuBLAS SGEMM at 50.8: t22 46.5, t30 45.6, t28 45.5, t24 44.7; t21 42.5, t29
//           41.3, t27 40.9; t13 39.5, t11 36.5; N 16384, d 128, B 4: 46.0. t28: 86 % of the issue slots busy, 83 % of
//           what is issued is the fma of the two products, 2.0 passes a shared load; t29: 86 % and 74 %.
// Limits    Seen by rewriting the registers of a compiled loop and timing it: an fma reads at most two operands a clock
//           that are not in the reuse cache, one from each parity of register numbers; the compiler arranges for that.
//           But a 16-byte shared load costs 2.8 issue slots, not one: its results, it seems, compete with the fma's for
//           the register file. 64 fma and 4 loads so take 75 clocks, 85 % of the fma rate, whatever the order of the
//           fma. With that, the exponentials and the copies, and 512 blocks on 132 multiprocessors, t28 cannot pass
//           49 TFLOP/s with 8 x 8 tiles. Larger tiles need more registers: 64 scores, 64 of the second block of
//           columns and 64 totals are alive together.
// No help   t28, each against its neighbour: one block of 256 rows with double buffers and one barrier, -0.6 %; rounds
//           of 16 for p*v, -0.3 %; p*v peeled too, -0.1 %; sums or totals added after the barrier while the first
//           operands come, 0.0 and -1.4 %; weights four rows at a time, -1.4 %. d = 32: two blocks of 254 registers,
//           t11 31.6 (35.3); 8 x 8 outputs (64 rows x 32 keys a warp), t29 39.4.
#include "tile_launch.cuh"

namespace hw4::gpu {

struct WovenTiles {
    using Lanes = PairedLanes;
    static constexpr bool kAsync = true;
    static constexpr bool kAhead = true;
    static constexpr bool kWoven = true;
};

void launch_woven_tiles(const KernelArgs& args, cudaStream_t stream) {
    launch_tiles<WovenTiles>(args, stream);
    HW4_CUDA_LAUNCHED("woven_tiles");
}

} // namespace hw4::gpu
