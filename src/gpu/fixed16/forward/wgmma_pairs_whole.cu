// wgmma_pairs for whole rows: d = 32 and, also under the mask, 64 (src/gpu/fixed/forward/wgmma_whole.cuh).
#include "src/gpu/fixed/forward/wgmma_whole.cuh"
#include "src/gpu/fixed/kernels.h"
#include "src/gpu/fixed16/forward/wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <class T>
void launch_for_element(const ForwardArgs& args, const WholeShares<T>& shares, const Prepass& prepass,
                        cudaStream_t stream) {
    if (args.is_narrow())
        launch_whole<WholeVariant<T, uint16_t>>(args, shares, prepass, stream);
    else
        launch_whole<WholeVariant<T, float>>(args, shares, prepass, stream);
}

template <class T>
bool launch(const ForwardArgs& args, int64_t multiprocessors, cudaStream_t stream) {
    const auto plan = whole_plan<T>(args, multiprocessors);
    if (plan)
        launch_for_element<T>(args, plan->shares, Prepass{static_cast<uint32_t>(plan->heads_before), plan->preparers},
                              stream);
    return plan.has_value();
}

template <class T>
bool launch_masked(const ForwardArgs& args, int64_t multiprocessors, cudaStream_t stream) {
    const auto shares = masked_whole_shares<T>(args, multiprocessors);
    if (shares) launch_for_element<T>(args, *shares, all_before(args), stream);
    return shares.has_value();
}

} // namespace

bool launch_pairs_whole(const Launch& of, cudaStream_t stream) {
    const ForwardArgs args = forward_args(of);
    const int64_t multiprocessors = of.device.multiprocessors;
    if (args.sight.more != 0)
        return args.dim == 64 && launch_masked<PairsJoint64::Masked>(args, multiprocessors, stream);
    switch (args.dim) {
    case 32: return launch<PairsJoint32>(args, multiprocessors, stream);
    case 64: return launch<PairsJoint64>(args, multiprocessors, stream);
    default: return false;
    }
}

} // namespace hw4::gpu
