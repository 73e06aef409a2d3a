// split_keys for bf16.
#include "src/gpu/f32/forward/split_launch.cuh"

namespace hw4::gpu::split {

template Plan plan<Bf16>(const Problem&, const Device&);
template void launch<Bf16>(const Launch&, cudaStream_t);

} // namespace hw4::gpu::split
