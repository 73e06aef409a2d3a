#include "src/gpu/f32/backward/round_args.h"

#include <algorithm>

#include "src/gpu/f32/backward/pair_tiles.cuh"

namespace hw4::gpu {
namespace {

// Head size, all columns there, warps of a team, warps, blocks a multiprocessor. With P and dP, 8 x 8 each, d = 32 has
// no registers for a third block.
template <bool kWhole>
using PairTiling32 = Tiling<32, kWhole, 1, 4, 2>;
template <bool kWhole>
using PairTiling64 = Tiling<64, kWhole, 1, 4, 2>;
template <bool kWhole>
using PairTiling128 = Tiling<128, kWhole, 2, 8, 1>;
// Half the rows and one block, for cards with too little shared memory for the others. Where d > 64, 99 KB do not do.
template <bool kWhole>
using SmallPairTiling64 = Tiling<64, kWhole, 2, 4, 1>;
template <bool kWhole>
using SmallPairTiling128 = Tiling<128, kWhole, 2, 4, 1>;

template <template <bool> class TilingOf, template <bool> class SmallTilingOf, class Visit>
void with_either(int dim, const Device& device, Visit visit) {
    if (device.shared_bytes < sizeof(PairMemory<TilingOf<true>>)) return with_columns<SmallTilingOf>(dim, visit);
    return with_columns<TilingOf>(dim, visit);
}

template <class Visit>
void with_pair_tiling(int dim, const Device& device, Visit visit) {
    if (dim <= 32) return with_columns<PairTiling32>(dim, visit);
    if (dim <= 64) return with_either<PairTiling64, SmallPairTiling64>(dim, device, visit);
    return with_either<PairTiling128, SmallPairTiling128>(dim, device, visit);
}

} // namespace

size_t pair_bytes(int dim, const Device& device) {
    size_t bytes = 0;
    with_pair_tiling(dim, device, [&](auto tiling) { bytes = sizeof(PairMemory<decltype(tiling)>); });
    return bytes;
}

void launch_pairs(RoundArgs args, const Device& device, cudaStream_t stream) {
    const ForwardArgs& forward = args.all.forward;
    with_pair_tiling(forward.dim, device, [&](auto tiling) {
        using T = decltype(tiling);
        constexpr size_t kBytes = sizeof(PairMemory<T>);
        const int64_t rows = int64_t{args.units} * pair_blocks<T>(args.rows);
        const int64_t tiles = (forward.keys + T::kKeys - 1) / T::kKeys;
        const int64_t blocks = int64_t{T::kBlocks} * device.multiprocessors;
        args.queue = pair_queue(rows, tiles, forward.seen_share(), blocks);
        HW4_CUDA(cudaMemsetAsync(args.drawn, 0, sizeof *args.drawn, stream));
        HW4_CUDA(cudaFuncSetAttribute(pair_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
        const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, args.queue.length()));
        pair_kernel<T><<<grid, T::kThreads, kBytes, stream>>>(args);
    });
    HW4_CUDA_LAUNCHED("pairs");
}

} // namespace hw4::gpu
