// drawn_tiles, without a mask or with one: kernels of their own, since code for a mask that is not there costs time, in
// files of their own, since they take long to compile.
#pragma once

#include "src/gpu/f32/forward/tile_launch.cuh"

namespace hw4::gpu {

template <bool kMask>
struct DrawnTiles {
    using Lanes = PairedLanes;
    template <class T>
    using Work = DrawnPieces<T, kMask>;
    static constexpr bool kAsync = true;
    static constexpr bool kAhead = true;
    static constexpr bool kWoven = true;
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
