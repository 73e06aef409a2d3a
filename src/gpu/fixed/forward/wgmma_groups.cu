// One group of four warps on a multiprocessor, or several, each a block of its own (at d = 128 two in one block). A
// block for each unit of work.
#include <limits>

#include "src/gpu/fixed/forward/kernels.h"
#include "src/gpu/fixed/forward/wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <class T>
void launch(const KernelArgs& args, cudaStream_t stream) {
    constexpr int64_t kOneForEachUnit = std::numeric_limits<int64_t>::max();
    launch_wgmma<T>(args, kOneForEachUnit, stream);
}

} // namespace

size_t shared_bytes_of_wgmma_groups(int dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(BlockMemory<Alone32>);
    case 64: return sizeof(BlockMemory<Alone64>);
    default: return sizeof(BlockMemory<Joint128>);
    }
}

void launch_wgmma_group(const KernelArgs& args, cudaStream_t stream) {
    switch (padded_columns(args.dim)) {
    case 32: return launch<Alone32>(args, stream);
    case 64: return launch<Alone64>(args, stream);
    default: return launch<Alone128>(args, stream);
    }
}

void launch_wgmma_groups(const KernelArgs& args, cudaStream_t stream) {
    switch (padded_columns(args.dim)) {
    case 32: return launch<Apart32>(args, stream);
    case 64: return launch<Apart64>(args, stream);
    default: return launch<Joint128>(args, stream);
    }
}

} // namespace hw4::gpu
