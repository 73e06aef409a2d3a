// The kernels of wgmma_pairs under a mask.
#include "src/gpu/fixed16/forward/wgmma_kernel.cuh"

namespace hw4::gpu::fixed_point {

template void launch_wgmma<PairsApart32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<PairsApart64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<PairsJoint32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<PairsJoint64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<PairsJoint128::Masked>(const ForwardArgs&, int64_t, cudaStream_t);

} // namespace hw4::gpu::fixed_point
