// wgmma_pairs at d = 64 where heads are many and each has few query rows: they are prepared beside the products
// (src/gpu/fixed/forward/prepass.h). A file of its own, since it takes long to compile.
#include "src/gpu/fixed/forward/wgmma_beside.cuh"
#include "src/gpu/fixed16/forward/kernels.h"
#include "src/gpu/fixed16/forward/wgmma_kernel.cuh"

namespace hw4::gpu {

bool launch_pairs_beside(const Launch& launch, cudaStream_t stream) {
    using namespace fixed_point;
    const ForwardArgs args = forward_args(launch);
    const auto plan = beside_plan<PairsJoint64>(args, launch.device.multiprocessors);
    if (!plan) return false;
    launch_beside<PairsJoint64>(args, *plan, stream);
    return true;
}

} // namespace hw4::gpu
