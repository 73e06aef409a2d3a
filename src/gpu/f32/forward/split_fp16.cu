// split_keys for fp16.
#include "src/gpu/f32/forward/split_launch.cuh"

namespace hw4::gpu::split {

template Plan plan<Fp16>(const Problem&, const Device&);
template void launch<Fp16>(const Launch&, cudaStream_t);

} // namespace hw4::gpu::split
