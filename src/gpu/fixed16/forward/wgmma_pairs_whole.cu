// wgmma_pairs at d = 64 by src/gpu/fixed/forward/wgmma_whole.cuh. A file of its own, since it takes long to compile.
#include "src/gpu/fixed/forward/wgmma_whole.cuh"
#include "src/gpu/fixed16/forward/kernels.h"
#include "src/gpu/fixed16/forward/wgmma_kernel.cuh"

namespace hw4::gpu {

bool launch_pairs_whole(const Launch& launch, cudaStream_t stream) {
    using namespace fixed_point;
    const ForwardArgs args = forward_args(launch);
    const auto plan = whole_plan<PairsJoint64>(args, launch.device.multiprocessors);
    if (!plan) return false;
    if (args.is_narrow())
        launch_whole<WholeVariant<PairsJoint64, uint16_t>>(args, *plan, stream);
    else
        launch_whole<WholeVariant<PairsJoint64, float>>(args, *plan, stream);
    return true;
}

} // namespace hw4::gpu
