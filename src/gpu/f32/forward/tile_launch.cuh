// Which tiling a rung of register tiles takes for a problem, and its launch.
#pragma once

#include "src/gpu/f32/forward/tile_kernel.cuh"
#include "src/gpu/f32/forward/tile_queue.h"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {

// Head size, all columns there, warps of a team, warps, blocks a multiprocessor.
template <bool kWhole>
using Tiling32 = Tiling<32, kWhole, 1, 4, 3>;
template <bool kWhole>
using Tiling64 = Tiling<64, kWhole, 1, 4, 2>;
template <bool kWhole>
using Tiling128 = Tiling<128, kWhole, 2, 8, 1>;
// Half the rows, for few rows or little shared memory.
template <bool kWhole>
using SmallTiling64 = Tiling<64, kWhole, 2, 4, 3>;
template <bool kWhole>
using SmallTiling128 = Tiling<128, kWhole, 2, 4, 1>;

template <class T>
RowBlocks row_blocks(const ForwardArgs& args) {
    return {blocks_of<T>(args), T::kBlocks, args.sight.more != 0, args.seen_share()};
}

template <template <bool> class TilingOf, template <bool> class SmallTilingOf, class Choices, class Visit>
void with_either(const ForwardArgs& args, const Device& device, Visit visit) {
    using Large = TilingOf<true>;
    if (takes_small_tiling(row_blocks<Large>(args), row_blocks<SmallTilingOf<true>>(args), sizeof(TileMemory<Large>),
                           Choices::template Work<Large>::kDrawn, device))
        return with_columns<SmallTilingOf>(args.dim, visit);
    return with_columns<TilingOf>(args.dim, visit);
}

// Calls visit(T()) with the tiling T for the problem; its matrices are not looked at.
template <class Choices, class Visit>
void with_tiling(const ForwardArgs& args, const Device& device, Visit visit) {
    if (args.dim <= 32) return with_columns<Tiling32>(args.dim, visit);
    if (args.dim <= 64) return with_either<Tiling64, SmallTiling64, Choices>(args, device, visit);
    return with_either<Tiling128, SmallTiling128, Choices>(args, device, visit);
}

template <class T, class Choices>
void launch_tiling(const ForwardArgs& args, int64_t blocks, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(TileMemory<T>);
    const auto kernel = tile_kernel<T, Choices>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    if (args.statistics != nullptr) // of most rows M is 0, and the kernel gives l alone
        HW4_CUDA(cudaMemset2DAsync(args.statistics, static_cast<size_t>(args.statistics_unit) * sizeof(RowStatistics),
                                   0, static_cast<size_t>(args.queries) * sizeof(RowStatistics), args.units, stream));
    kernel<<<static_cast<unsigned>(blocks), T::kThreads, kBytes, stream>>>(args);
}

// What a rung chooses, unless it says otherwise (tile_kernel.cuh).
struct TileChoices {
    using Lanes = PairedLanes;
    template <class T>
    using Work = WholeRows<T>;
    static constexpr bool kAsync = false;
    static constexpr bool kAhead = false;
    static constexpr bool kWoven = false;
    static constexpr bool kMasked = false;
};

// A block for each block of rows.
template <class Choices>
void launch_tiles(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    with_tiling<Choices>(args, launch.device, [&](auto tiling) {
        using T = decltype(tiling);
        launch_tiling<T, Choices>(args, blocks_of<T>(args), stream);
    });
}

struct WovenTiles : TileChoices {
    static constexpr bool kAsync = true;
    static constexpr bool kAhead = true;
    static constexpr bool kWoven = true;
};

// drawn_tiles, without a mask or with one: kernels of their own, since code for a mask that is not there costs time, in
// files of their own, since they take long to compile.
template <bool kMask>
struct DrawnTiles : WovenTiles {
    template <class T>
    using Work = DrawnPieces<T, kMask>;
    static constexpr bool kMasked = kMask;
};

template <class T>
unsigned blocks_on(const Device& device) {
    return static_cast<unsigned>(T::kBlocks * device.multiprocessors);
}

template <class T>
unsigned cut_rows_of(const ForwardArgs& args, const Device& device) {
    return cut_rows(static_cast<unsigned>(blocks_of<T>(args)), blocks_on<T>(device), args.sight.more == 0);
}

template <bool kMasked>
void launch_drawn(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    with_tiling<DrawnTiles<kMasked>>(args, launch.device, [&](auto tiling) {
        using T = decltype(tiling);
        using Left = typename DrawnPieces<T, kMasked>::Left;
        HW4_CUDA(cudaMemsetAsync(args.scratch, 0, Left::cleared_bytes(cut_rows_of<T>(args, launch.device)), stream));
        launch_tiling<T, DrawnTiles<kMasked>>(args, blocks_on<T>(launch.device), stream);
    });
    HW4_CUDA_LAUNCHED("drawn_tiles");
}

void launch_masked_drawn_tiles(const Launch& launch, cudaStream_t stream);

} // namespace hw4::gpu
