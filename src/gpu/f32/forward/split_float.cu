// split_keys for float.
#include "src/gpu/f32/forward/split_launch.cuh"

namespace hw4::gpu::split {

template Plan plan<float>(const Problem&, const Device&);
template void launch<float>(const Launch&, cudaStream_t);

} // namespace hw4::gpu::split
