#include "tile_launch.cuh"

namespace hw4::gpu {
namespace {

struct Choices {
    using Lanes = RowsOfLanes;
    static constexpr bool kAsync = false;
    static constexpr bool kAhead = false;
    static constexpr bool kWoven = false;
};

} // namespace

void launch_register_tiles(const KernelArgs& args, cudaStream_t stream) {
    launch_tiles<Choices>(args, stream);
    HW4_CUDA_LAUNCHED("register_tiles");
}

size_t shared_bytes_of_tiles(int dim) {
    if (dim <= 32) return sizeof(TileMemory<Tiling32<true>>);
    if (dim <= 64) return sizeof(TileMemory<SmallTiling64<true>>);
    if (dim <= 128) return sizeof(TileMemory<SmallTiling128<true>>);
    return 0; // register_rows' own
}

} // namespace hw4::gpu
