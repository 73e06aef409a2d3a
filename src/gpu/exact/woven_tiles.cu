#include "tile_launch.cuh"

namespace hw4::gpu {
namespace {

struct Choices {
    using Lanes = PairedLanes;
    static constexpr bool kAsync = true;
    static constexpr bool kAhead = true;
    static constexpr bool kWoven = true;
};

} // namespace

void launch_woven_tiles(const KernelArgs& args, cudaStream_t stream) {
    launch_tiles<Choices>(args, stream);
    HW4_CUDA_LAUNCHED("woven_tiles");
}

} // namespace hw4::gpu
