#include "fixed_kernels.h"
#include "prepare.h"
#include "wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <class T>
void launch(const KernelArgs& args, cudaStream_t stream) {
    const Prepared prepared = prepared_at(args.scratch, args.batches, args.tokens, args.dim);
    launch_prepare(args, prepared, stream);
    launch_wgmma<T>(args, prepared, stream);
}

// Head size, groups of a block, stages, blocks of a multiprocessor.
using Alone32 = Variant<32, 1, 4, 1>;
using Alone64 = Variant<64, 1, 4, 1>;
using Alone128 = Variant<128, 1, 3, 1>;
using Four32 = Variant<32, 1, 2, 4>;
using Two64 = Variant<64, 2, 4, 1>;
using Three64 = Variant<64, 1, 2, 3>;
using Two128 = Variant<128, 2, 3, 1>;

// Three groups on a multiprocessor are faster than two, until the last round leaves most multiprocessors idle.
bool takes_two(const KernelArgs& args) {
    const int64_t groups = args.batches * GroupRows::blocks_of_batch<1>(args);
    const int64_t multiprocessors = current_device().multiprocessors;
    const auto rounds = [&](int64_t at_once) {
        return (groups + at_once * multiprocessors - 1) / (at_once * multiprocessors);
    };
    // Time of a round in units of a tile's: three groups take 1.39 times as long as two, measured.
    return static_cast<double>(rounds(2)) < 1.39 * static_cast<double>(rounds(3));
}

} // namespace

size_t shared_bytes_of_wgmma(int dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(BlockMemory<Alone32>);
    case 64: return sizeof(BlockMemory<Two64>);
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
    case 64: return takes_two(args) ? launch<Two64>(args, stream) : launch<Three64>(args, stream);
    default: return launch<Two128>(args, stream);
    }
}

} // namespace hw4::gpu
