#include "tests/support/large_tiles.h"

#include "src/gpu/f32/forward/tile_kernel.cuh"

namespace hw4::gpu {
namespace {

template <class Large, class Small>
bool takes_large(const Problem& problem, size_t large_bytes, const Device& device) {
    const ForwardArgs args = forward_args(problem);
    return !takes_small_tiling(row_blocks<Large>(args), row_blocks<Small>(args), large_bytes, false, device);
}

} // namespace

bool takes_large_tiles(const Problem& problem, size_t large_bytes, const Device& device) {
    return problem.dim <= 64 ? takes_large<Tiling64<true>, SmallTiling64<true>>(problem, large_bytes, device)
                             : takes_large<Tiling128<true>, SmallTiling128<true>>(problem, large_bytes, device);
}

size_t large_tile_bytes(int64_t dim) {
    return dim <= 64 ? sizeof(TileMemory<Tiling64<true>>) : sizeof(TileMemory<Tiling128<true>>);
}

} // namespace hw4::gpu
