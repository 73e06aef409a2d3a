#include "src/gpu/fixed/forward/kernels.h"
#include "src/gpu/fixed/forward/mma_kernel.cuh"
#include "src/gpu/fixed/forward/prepare.h"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <int kDim>
void launch(const KernelArgs& args, cudaStream_t stream) {
    launch_mma<kDim>(args, launch_prepare(args, Facts::needed, 0, stream), stream);
}

} // namespace

size_t scratch_bytes_of_fixed(const Shape& shape, const Device&) { return prepared_bytes(shape); }

size_t shared_bytes_of_mma_groups(int dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(MmaMemory<MmaVariant<32>>);
    case 64: return sizeof(MmaMemory<MmaVariant<64>>);
    case 128: return sizeof(MmaMemory<MmaVariant<128>>);
    default: return sizeof(MmaMemory<MmaVariant<256>>);
    }
}

void launch_mma_groups(const KernelArgs& args, cudaStream_t stream) {
    switch (padded_columns(args.dim)) {
    case 32: return launch<32>(args, stream);
    case 64: return launch<64>(args, stream);
    case 128: return launch<128>(args, stream);
    default: return launch<256>(args, stream);
    }
}

} // namespace hw4::gpu
