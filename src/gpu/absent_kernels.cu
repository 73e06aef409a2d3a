// Stubs for the kernels that make run leaves out: they take more processor time to compile than all others.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "src/base/error.h"
#include "src/gpu/f32/forward/split_keys.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {

std::vector<Kernel> half_kernels() { return {}; }

void launch_window_drawn_tiles(const Launch&, cudaStream_t) {
    throw Error(ExitCode::no_gpu,
                "windows on a GPU are not in a program that make run built; make builds the complete one");
}

namespace split {

template <class E>
Plan plan(const Problem&, const Device&) {
    Plan plan;
    plan.why_not = "is not in a program that make run built; make builds the complete one";
    return plan;
}

template <class E>
void launch(const Launch&, cudaStream_t) {
    throw std::logic_error("split_keys launched where its plan refuses");
}

template Plan plan<float>(const Problem&, const Device&);
template Plan plan<__nv_bfloat16>(const Problem&, const Device&);
template Plan plan<__half>(const Problem&, const Device&);
template void launch<float>(const Launch&, cudaStream_t);
template void launch<__nv_bfloat16>(const Launch&, cudaStream_t);
template void launch<__half>(const Launch&, cudaStream_t);

} // namespace split
} // namespace hw4::gpu
