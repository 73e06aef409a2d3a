#include "src/gpu/f32/kernels.h"

#include "src/gpu/kernels.h"

namespace hw4::gpu {

std::vector<Kernel> f32_kernels() {
    constexpr Needs kAny = {.masks = kEveryMask};
    constexpr Needs kPlain = {.masks = kEveryMask, .windows = true};
    constexpr Needs kTiles = {.arch = 80, .most_dim = kMostTileColumns};
    constexpr Needs kTopTiles = {.arch = 80, .most_dim = kMostTileColumns, .masks = kEveryMask};
    constexpr Needs kDrawn = {.arch = 80, .most_dim = kMostTileColumns, .masks = kEveryMask, .windows = true};
    constexpr Needs kSplit = {.arch = 80,
                              .masks = kEveryMask,
                              .elements = kEveryElement,
                              .row_bytes = 16,
                              .lengths = true,
                              .pages = true,
                              .windows = true};
    return {
        {"plain_rows", "the baseline: a warp for each query row, straight from global memory", &kForward, &kF32, kPlain,
         plan_rows, launch_plain_rows},
        {"shared_tiles", "32 query rows share tiles of 32 keys in shared memory", &kForward, &kF32, kAny, plan_rows,
         launch_shared_tiles},
        {"padded_tiles", "tile rows 33 floats apart, against bank conflicts", &kForward, &kF32, kAny, plan_rows,
         launch_padded_tiles},
        {"coalesced_tiles", "tiles loaded along their rows, 128 bytes a warp", &kForward, &kF32, kAny, plan_rows,
         launch_coalesced_tiles},
        {"unrolled_tiles", "loops over a tile's columns and keys unrolled", &kForward, &kF32, kAny, plan_rows,
         launch_unrolled_tiles},
        {"register_rows", "a row's running output and totals in registers", &kForward, &kF32, kAny, plan_rows,
         launch_register_rows},
        {"register_tiles", "8 x 8 scores and outputs a thread, as outer products; no running maximum", &kForward, &kF32,
         kTiles, plan_large_tiles, launch_register_tiles},
        {"async_tiles", "tiles copied in the background while others are computed; lanes placed for 16-byte loads",
         &kForward, &kF32, kTiles, plan_large_tiles, launch_async_tiles},
        {"woven_tiles", "copies woven into the arithmetic, a few with every round; operands loaded a step ahead",
         &kForward, &kF32, kTiles, plan_whole_tiles, launch_woven_tiles},
        {"drawn_tiles", "blocks draw rows of tiles from a queue, the last ones in pieces", &kForward, &kF32, kDrawn,
         plan_drawn_tiles, launch_drawn_tiles},
        {"split_keys",
         "few query rows or heads: the keys divided among all blocks, K and V read once for all rows of a group",
         &kForward, &kF32, kSplit, plan_split_keys, launch_split_keys},
        {"plain_gradients",
         "the baseline: a warp for each row of dQ, and for each of dK and dV, straight from global memory", &kBackward,
         &kF32, kAny, plan_plain_gradients, launch_plain_gradients, true},
        {"shared_gradients", "32 rows share tiles of 32 others in shared memory, their sums in registers", &kBackward,
         &kF32, kAny, plan_plain_gradients, launch_shared_gradients, true},
        {"kept_pairs", "P and dS in memory: each pair computed once, then three products in register tiles", &kBackward,
         &kF32, kTopTiles, plan_kept_pairs, launch_kept_pairs, true},
    };
}

} // namespace hw4::gpu
