// wgmma_pairs at d = 32 and 64 with src/gpu/fixed/forward/wgmma_whole.cuh. In a file of its own, since it takes long to
// compile.
#include "src/gpu/fixed/forward/wgmma_whole.cuh"
#include "src/gpu/fixed/kernels.h"
#include "src/gpu/fixed16/forward/wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <class T>
bool launch(const ForwardArgs& args, int64_t multiprocessors, cudaStream_t stream) {
    const auto plan = whole_plan<T>(args, multiprocessors);
    if (!plan) return false;
    if (args.is_narrow())
        launch_whole<WholeVariant<T, uint16_t>>(args, *plan, stream);
    else
        launch_whole<WholeVariant<T, float>>(args, *plan, stream);
    return true;
}

} // namespace

bool launch_pairs_whole(const Launch& of, cudaStream_t stream) {
    const ForwardArgs args = forward_args(of);
    switch (args.dim) {
    case 32: return launch<PairsJoint32>(args, of.device.multiprocessors, stream);
    case 64: return launch<PairsJoint64>(args, of.device.multiprocessors, stream);
    default: return false;
    }
}

} // namespace hw4::gpu
