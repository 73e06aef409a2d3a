#include "src/gpu/kernels.h"

#include "src/gpu/f32/kernels.h"
#include "src/gpu/fixed/kernels.h"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu {

const std::vector<Kernel>& kernels() {
    static constexpr Needs kAny = {.masks = kEveryMask};
    static constexpr Needs kPlain = {.masks = kEveryMask, .windows = true};
    static constexpr Needs kTiles = {.arch = 80, .most_dim = kMostTileColumns};
    static constexpr Needs kTopTiles = {.arch = 80, .most_dim = kMostTileColumns, .masks = kEveryMask};
    static constexpr Needs kDrawn = {.arch = 80, .most_dim = kMostTileColumns, .masks = kEveryMask, .windows = true};
    static constexpr Needs kHopper = {.arch = 90, .last_arch = 90, .most_dim = kMostWgmmaColumns};
    static constexpr Needs kHopperMasked = {
        .arch = 90, .last_arch = 90, .most_dim = kMostWgmmaColumns, .masks = kEveryMask};
    static constexpr Needs kAmpereMasked = {.arch = 80, .masks = kEveryMask};
    // Half precision: rows are whole pieces of 16 bytes.
    constexpr int64_t kPiece = 16;
    const auto with_elements = [](Needs needs, List<Element> elements, int64_t row_bytes) {
        needs.elements = elements;
        needs.row_bytes = row_bytes;
        return needs;
    };
    static const Needs kAmpereAny = with_elements(kAmpereMasked, kEveryElement, 1);
    static const Needs kHopperAny = with_elements(kHopperMasked, kEveryElement, 1);
    static const Needs kAmpereBf16 = with_elements(kAmpereMasked, kBf16Only, kPiece);
    static const Needs kHopperBf16 = with_elements(kHopperMasked, kBf16Only, kPiece);
    static const Needs kAmpereFp16 = with_elements(kAmpereMasked, kFp16Only, kPiece);
    static const Needs kHopperFp16 = with_elements(kHopperMasked, kFp16Only, kPiece);
    const auto by_lengths = [](Needs needs) {
        needs.lengths = true;
        return needs;
    };
    static constexpr Needs kSplit = {.arch = 80,
                                     .masks = kEveryMask,
                                     .elements = kEveryElement,
                                     .row_bytes = kPiece,
                                     .lengths = true,
                                     .pages = true,
                                     .windows = true};
    static const std::vector<Kernel> table = {
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
         kTiles, plan_tiles, launch_register_tiles},
        {"async_tiles", "tiles copied in the background while others are computed; lanes placed for 16-byte loads",
         &kForward, &kF32, kTiles, plan_tiles, launch_async_tiles},
        {"woven_tiles", "copies woven into the arithmetic, a few with every round; operands loaded a step ahead",
         &kForward, &kF32, kTiles, plan_tiles, launch_woven_tiles},
        {"drawn_tiles", "blocks draw rows of tiles from a queue, the last ones in pieces", &kForward, &kF32, kDrawn,
         plan_drawn_tiles, launch_drawn_tiles},
        {"split_keys", "few query rows: the keys divided among all blocks, K and V read once for all rows of a group",
         &kForward, &kF32, kSplit, plan_split_keys, launch_split_keys},
        {"plain_gradients",
         "the baseline: a warp for each row of dQ, and for each of dK and dV, straight from global memory", &kBackward,
         &kF32, kAny, plan_plain_gradients, launch_plain_gradients, true},
        {"shared_gradients", "32 rows share tiles of 32 others in shared memory, their sums in registers", &kBackward,
         &kF32, kAny, plan_plain_gradients, launch_shared_gradients, true},
        {"kept_pairs", "P and dS in memory: each pair computed once, then three products in register tiles", &kBackward,
         &kF32, kTopTiles, plan_kept_pairs, launch_kept_pairs, true},
        {"mma_groups", "integer tensor cores by mma.sync, 64 query rows for each four warps", &kForward, &kFixed,
         kAmpereMasked, plan_mma_groups, launch_mma_groups},
        {"wgmma_group", "Hopper's asynchronous products, one group of four warps on a multiprocessor", &kForward,
         &kFixed, kHopper, plan_wgmma_groups, launch_wgmma_group},
        {"wgmma_groups", "several groups, so that some make weights while others multiply", &kForward, &kFixed,
         kHopperMasked, plan_wgmma_groups, launch_wgmma_groups},
        {"wgmma_shares", "the work divided evenly: blocks begin rows of others and hand their sums on", &kForward,
         &kFixed, kHopperMasked, plan_wgmma_shares, launch_wgmma_shares},
        {"table_pairs", "two digits: three products instead of six; powers of 2 from a table", &kForward, &kFixed16,
         kAmpereAny, plan_mma_pairs, launch_table_pairs},
        {"mma_pairs", "powers of 2 by the card's own instruction, which gives that table", &kForward, &kFixed16,
         kAmpereAny, plan_mma_pairs, launch_mma_pairs},
        {"wgmma_pairs", "Hopper's asynchronous products, 128 keys and both digits at once, in equal shares", &kForward,
         &kFixed16, kHopperAny, plan_wgmma_pairs, launch_wgmma_pairs},
        {"mma_bf16", "tensor cores by mma.sync, weights in registers between the two products", &kForward, &kBf16,
         kAmpereBf16, plan_mma_half, launch_half<half_forward::launch_mma>},
        {"wgmma_stage", "Hopper's asynchronous products, tiles by the copy engine, one at a time", &kForward, &kBf16,
         kHopperBf16, plan_wgmma_half, launch_half<half_forward::launch_wgmma_stage>},
        {"wgmma_ring", "tiles copied to a ring of stages, ahead of their use", &kForward, &kBf16, kHopperBf16,
         plan_wgmma_half, launch_half<half_forward::launch_wgmma_ring>},
        {"wgmma_ahead", "the next tile's scores multiplied while this one's become weights", &kForward, &kBf16,
         kHopperBf16, plan_wgmma_half, launch_half<half_forward::launch_wgmma_ahead>},
        {"wgmma_bf16", "blocks stay and take jobs as they come, the longest first; groups begin products in turns",
         &kForward, &kBf16, kHopperBf16, plan_wgmma_half, launch_half<half_forward::launch_wgmma>},
        {"split_bf16",
         "few query rows: the keys cut into parts for all blocks, K and V read once for all rows of a group", &kForward,
         &kBf16, by_lengths(kAmpereBf16), plan_split_half, half_forward::launch_split},
        {"mma_bf16_gradients", "mma.sync: keys stay for dK and dV, queries stay for dQ, pairs computed for both",
         &kBackward, &kBf16, kAmpereBf16, plan_mma_half_gradients,
         launch_half_gradients<half_forward::launch_mma, half_backward::launch_mma>},
        {"wgmma_bf16_gradients",
         "Hopper's asynchronous products; pairs computed once: blocks of keys add to dQ in memory, in turns",
         &kBackward, &kBf16, kHopperBf16, plan_wgmma_half_gradients,
         launch_half_gradients<half_forward::launch_wgmma, half_backward::launch_wgmma>},
        {"mma_fp16", "tensor cores by mma.sync, weights in registers between the two products", &kForward, &kFp16,
         kAmpereFp16, plan_mma_half, launch_half<half_forward::launch_mma>},
        {"wgmma_fp16", "all that wgmma_bf16 does", &kForward, &kFp16, kHopperFp16, plan_wgmma_half,
         launch_half<half_forward::launch_wgmma>},
        {"split_fp16",
         "few query rows: the keys cut into parts for all blocks, K and V read once for all rows of a group", &kForward,
         &kFp16, by_lengths(kAmpereFp16), plan_split_half, half_forward::launch_split},
        {"mma_fp16_gradients", "mma.sync: keys stay for dK and dV, queries stay for dQ, pairs computed for both",
         &kBackward, &kFp16, kAmpereFp16, plan_mma_half_gradients,
         launch_half_gradients<half_forward::launch_mma, half_backward::launch_mma>},
        {"wgmma_fp16_gradients", "all that wgmma_bf16_gradients does", &kBackward, &kFp16, kHopperFp16,
         plan_wgmma_half_gradients, launch_half_gradients<half_forward::launch_wgmma, half_backward::launch_wgmma>},
    };
    return table;
}

} // namespace hw4::gpu
