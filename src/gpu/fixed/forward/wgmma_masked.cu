// The kernels of wgmma_groups and wgmma_shares under a mask.
#include "src/gpu/fixed/forward/wgmma_kernel.cuh"

namespace hw4::gpu::fixed_point {

template void launch_wgmma<Apart32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<Apart64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<Joint32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<Joint64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
template void launch_wgmma<Joint128::Masked>(const ForwardArgs&, int64_t, cudaStream_t);

} // namespace hw4::gpu::fixed_point
