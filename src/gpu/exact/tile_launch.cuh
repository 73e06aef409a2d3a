// Which tiling a rung of register tiles takes for a problem, and its launch.
#pragma once

#include <limits>

#include "exact_kernels.h"
#include "tile_choice.h"
#include "tile_kernel.cuh"

namespace hw4::gpu {

template <class T, class Choices>
void launch_tiling(const KernelArgs& args, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(TileMemory<T>);
    const auto kernel = tile_kernel<T, Choices>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    kernel<<<static_cast<unsigned>(blocks_of<T>(args)), T::kThreads, kBytes, stream>>>(args);
}

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

template <template <bool> class TilingOf, class Choices>
void launch_columns(const KernelArgs& args, cudaStream_t stream) {
    if (args.dim == TilingOf<true>::kDim) return launch_tiling<TilingOf<true>, Choices>(args, stream);
    return launch_tiling<TilingOf<false>, Choices>(args, stream);
}

template <template <bool> class TilingOf, template <bool> class SmallTilingOf, class Choices>
void launch_either(const KernelArgs& args, cudaStream_t stream) {
    using Large = TilingOf<true>;
    using Small = SmallTilingOf<true>;
    if (takes_small_tiling(blocks_of<Large>(args), blocks_of<Small>(args), sizeof(TileMemory<Large>), current_device()))
        return launch_columns<SmallTilingOf, Choices>(args, stream);
    return launch_columns<TilingOf, Choices>(args, stream);
}

constexpr int64_t kMostTokens = std::numeric_limits<int>::max() - 1024; // rows are counted in int

// Head sizes beyond 128 would need more registers than a thread has: they are the last simpler rung's.
template <class Choices>
void launch_tiles(const KernelArgs& args, cudaStream_t stream) {
    if (args.tokens > kMostTokens) return launch_register_rows(args, stream);
    if (args.dim <= 32) return launch_columns<Tiling32, Choices>(args, stream);
    if (args.dim <= 64) return launch_either<Tiling64, SmallTiling64, Choices>(args, stream);
    if (args.dim <= 128) return launch_either<Tiling128, SmallTiling128, Choices>(args, stream);
    return launch_register_rows(args, stream);
}

} // namespace hw4::gpu
