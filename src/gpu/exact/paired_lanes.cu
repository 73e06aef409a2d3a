#include "tile_launch.cuh"

namespace hw4::gpu {
namespace {

struct Choices {
    using Lanes = PairedLanes;
    static constexpr bool kAsync = false;
    static constexpr bool kAhead = false;
    static constexpr bool kWoven = false;
};

} // namespace

void launch_paired_lanes(const KernelArgs& args, cudaStream_t stream) {
    launch_tiles<Choices>(args, stream);
    HW4_CUDA_LAUNCHED("paired_lanes");
}

} // namespace hw4::gpu
