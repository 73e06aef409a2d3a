#include "src/gpu/fixed/forward/kernels.h"
#include "src/gpu/fixed/forward/mma_kernel.cuh"
#include "src/gpu/fixed/forward/prepare.h"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <int kDim>
void launch_for(const ForwardArgs& args, cudaStream_t stream) {
    launch_mma<kDim>(args, launch_prepare(args, Facts::needed, 0, stream), stream);
}

size_t shared_bytes_for(int64_t dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(MmaMemory<MmaVariant<32>>);
    case 64: return sizeof(MmaMemory<MmaVariant<64>>);
    case 128: return sizeof(MmaMemory<MmaVariant<128>>);
    default: return sizeof(MmaMemory<MmaVariant<256>>);
    }
}

} // namespace

Plan plan_mma_groups(const Problem& problem, const Device&) {
    Plan plan;
    plan.shared_bytes = shared_bytes_for(problem.dim);
    plan.scratch_bytes = prepared_bytes(problem);
    return plan;
}

void launch_mma_groups(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    switch (padded_columns(args.dim)) {
    case 32: return launch_for<32>(args, stream);
    case 64: return launch_for<64>(args, stream);
    case 128: return launch_for<128>(args, stream);
    default: return launch_for<256>(args, stream);
    }
}

} // namespace hw4::gpu
