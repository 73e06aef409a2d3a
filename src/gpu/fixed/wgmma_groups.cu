// One group of four warps on a multiprocessor, or several, each a block of its own (at d = 128 two in one block). A
// block for each unit of work.
#include <limits>

#include "fixed_kernels.h"
#include "prepare.h"
#include "wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

// Head size, groups of a block, stages, blocks of a multiprocessor. Alone has so many stages that no two blocks fit.
using Alone32 = Variant<32, 1, 9, 1>;
using Alone64 = Variant<64, 1, 5, 1>;
using Alone128 = Variant<128, 1, 3, 1>;
using Four32 = Variant<32, 1, 2, 4>;
using Three64 = Variant<64, 1, 2, 3>;
using Two128 = Variant<128, 2, 3, 1>;

template <class T>
void launch(const KernelArgs& args, cudaStream_t stream) {
    constexpr int64_t kOneForEachUnit = std::numeric_limits<int64_t>::max();
    launch_wgmma<T>(args, launch_prepare(args, stream), kOneForEachUnit, nullptr, stream);
}

} // namespace

size_t shared_bytes_of_wgmma_groups(int dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(BlockMemory<Alone32>);
    case 64: return sizeof(BlockMemory<Alone64>);
    default: return sizeof(BlockMemory<Two128>);
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
    case 32: return launch<Four32>(args, stream);
    case 64: return launch<Three64>(args, stream);
    default: return launch<Two128>(args, stream);
    }
}

} // namespace hw4::gpu
