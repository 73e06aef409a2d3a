// As many blocks as the card holds at once, which divide the work evenly and hand on what they cannot finish
// (shares.h). Where sequences are long, a multiprocessor's groups are one block, which copies each tile once for all of
// them.
#include <algorithm>

#include "src/gpu/fixed/forward/kernels.h"
#include "src/gpu/fixed/forward/wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <class T>
int64_t blocks_on(const Device& device) {
    return int64_t{device.multiprocessors} * T::kBlocks;
}

template <class T>
size_t handover_bytes(const Shape& shape, const Device& device) {
    const int64_t units = shape.batches * units_for(shape.tokens, T::kGroups);
    return blocks_on<T>(device) < units ? Handover::bytes<T>(blocks_on<T>(device)) : 0;
}

template <class T>
void launch(const KernelArgs& args, const Device& device, cudaStream_t stream) {
    launch_wgmma<T>(args, blocks_on<T>(device), stream);
}

template <class Joint, class Apart>
void launch_joint_or_apart(const KernelArgs& args, const Device& device, cudaStream_t stream) {
    if (takes_joint(args.batches, args.tokens, queries_of(args), Joint::kGroups, device.multiprocessors))
        launch<Joint>(args, device, stream);
    else
        launch<Apart>(args, device, stream);
}

} // namespace

size_t shared_bytes_of_wgmma_shares(int dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(BlockMemory<Joint32>);
    case 64: return sizeof(BlockMemory<Joint64>);
    default: return sizeof(BlockMemory<Joint128>);
    }
}

// Enough for a part of the batches or of the queries too, which may take the other kind of block.
size_t scratch_bytes_of_wgmma_shares(const Shape& shape, const Device& device) {
    const auto handover = [&] {
        switch (padded_columns(shape.dim)) {
        case 32: return std::max(handover_bytes<Apart32>(shape, device), handover_bytes<Joint32>(shape, device));
        case 64: return std::max(handover_bytes<Apart64>(shape, device), handover_bytes<Joint64>(shape, device));
        default: return handover_bytes<Joint128>(shape, device);
        }
    };
    return prepared_bytes(shape) + handover();
}

void launch_wgmma_shares(const KernelArgs& args, cudaStream_t stream) {
    const Device device = current_device();
    switch (padded_columns(args.dim)) {
    case 32: return launch_joint_or_apart<Joint32, Apart32>(args, device, stream);
    case 64: return launch_joint_or_apart<Joint64, Apart64>(args, device, stream);
    default: return launch<Joint128>(args, device, stream);
    }
}

} // namespace hw4::gpu
