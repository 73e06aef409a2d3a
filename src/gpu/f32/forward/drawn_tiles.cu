// drawn_tiles: woven_tiles with blocks that draw rows from a queue, the last ones in pieces. The top of the ladder.
//
// Idea      512 blocks on 132 multiprocessors are 3.88 waves that take the time of 4. Multiprocessors are not equally
//           fast, either: a tile took the same groups of them up to 5 % longer, in the long unrolled parts and not in
//           the short loop of p*v, so instruction fetch is late there. Here the blocks fill the GPU once and draw the
//           next row of tiles until none is left; the last two rows for each block come in pieces of two thirds, two
//           ninths, ..., with registers handed over through scratch memory (tile_pieces.cuh, tile_queue.h).
//           With fewer than three rows for two blocks, woven_tiles takes less time (tile_queue.h); for a d that it
//           does not take, rows are drawn whole then. Under a mask rows differ in length, and blocks draw whole rows
//           from the longest to the shortest. There the rows of a block are dealt among its threads, so that in the
//           last tile all of them leave out as much, and the scores have shorter loops: all code that a row of tiles
//           runs through fits the instruction cache. For 16 x 32 x 512 x 64: 5 % by shorter code, 11 % by the rest.
// Work, Memory, Order  As in woven_tiles, with zeros for missing columns. Scratch: up to 21 MB on an H200, for each
//           launch at a time.
// Limits    With a window and missing columns, blocks have half the rows, so that a build has fewer kernels: 8 % longer
//           where a window is long (kSmallBlockCost; not measured).
// No help   Shares of equal length, settled at the start, +0.5 to +3 % where the queue brings +2 to +6 %: the slow
//           multiprocessors end last. Blocks of a multiprocessor on adjacent rows and the same keys, no gain. The
//           next piece's Q and K copied during the last tile of this one: d = 32 up to +2 %, d = 64 -1 %, as the code
//           for it is in the loop. Barriers split into arriving and waiting (mbarrier), 0.0 %. K copied in the first
//           half of p*v, -3 %. Scores in loops of 8 steps, not peeled: 40 instead of 90 KB of code, -2 %;
//           in loops of 4, peeled, -1 %. Under the mask, 512 keys: the last tile computed apart but long loops, -20 %;
//           the tile before it computed apart too, -4 %; the next row drawn and copied meanwhile, +0.5 % for 30 lines.
#include <algorithm>

#include "src/gpu/f32/forward/tile_kernel.cuh"

namespace hw4::gpu {
namespace {

template <class T>
size_t drawn_bytes(const ForwardArgs& args, const Device& device) {
    return DrawnPieces<T, View::all>::Left::bytes(cut_rows_of<T>(args, device)); // also with a mask, which needs none
}

// A part of the problem may be drawn as small blocks if the whole problem is drawn as large ones.
size_t drawn_bytes_of_parts(const ForwardArgs& args, const Device& device) {
    if (args.dim <= 32) return drawn_bytes<Tiling32<true>>(args, device);
    if (args.dim <= 64)
        return std::max(drawn_bytes<Tiling64<true>>(args, device), drawn_bytes<SmallTiling64<true>>(args, device));
    return std::max(drawn_bytes<Tiling128<true>>(args, device), drawn_bytes<SmallTiling128<true>>(args, device));
}

} // namespace

Plan plan_drawn_tiles(const Problem& problem, const Device& device) {
    Plan plan = plan_tiles(problem, device);
    if (!plan.why_not.empty()) return plan;
    const ForwardArgs args = forward_args(problem);
    plan.scratch_bytes = drawn_bytes_of_parts(args, device);
    with_tiling<DrawnTiles<View::all>>(args, device, [&](auto tiling) {
        plan.pays = !has_whole_tiles(problem) || is_worth_a_queue(row_blocks<decltype(tiling)>(args), device);
    });
    return plan;
}

void launch_drawn_tiles(const Launch& launch, cudaStream_t stream) {
    if (launch.problem.window > 0) return launch_window_drawn_tiles(launch, stream);
    if (launch.problem.mask != Mask::none) return launch_masked_drawn_tiles(launch, stream);
    launch_drawn<View::all>(launch, stream);
}

} // namespace hw4::gpu
