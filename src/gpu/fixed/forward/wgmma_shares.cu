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
size_t handover_bytes(const Problem& problem, const Device& device) {
    const int64_t jobs = problem.units() * jobs_for(problem.queries, T::kGroups);
    const int64_t blocks = blocks_on<T>(device);
    return blocks < jobs ? Handover<T>::bytes(handover_places<T>(blocks)) : 0;
}

template <class T>
void launch_for(const Launch& launch, cudaStream_t stream) {
    launch_wgmma<T>(forward_args(launch), blocks_on<T>(launch.device), stream);
}

template <class Joint, class Apart>
void launch_joint_or_apart(const Launch& launch, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    if (takes_joint(problem.units(), problem.keys, launch.queries(), Joint::kGroups, launch.device.multiprocessors))
        launch_for<Joint>(launch, stream);
    else
        launch_for<Apart>(launch, stream);
}

size_t shared_bytes_for(int64_t dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(BlockMemory<Joint32>);
    case 64: return sizeof(BlockMemory<Joint64>);
    default: return sizeof(BlockMemory<Joint128>);
    }
}

// Enough for a part of the batches or of the queries too, which may take the other kind of block.
size_t handover_bytes_of_parts(const Problem& problem, const Device& device) {
    switch (padded_columns(problem.dim)) {
    case 32: return std::max(handover_bytes<Apart32>(problem, device), handover_bytes<Joint32>(problem, device));
    case 64: return std::max(handover_bytes<Apart64>(problem, device), handover_bytes<Joint64>(problem, device));
    default: return handover_bytes<Joint128>(problem, device);
    }
}

} // namespace

Plan plan_wgmma_shares(const Problem& problem, const Device& device) {
    Plan plan;
    plan.shared_bytes = shared_bytes_for(problem.dim);
    plan.scratch_bytes = prepared_bytes(problem) + handover_bytes_of_parts(problem, device);
    return plan;
}

void launch_wgmma_shares(const Launch& launch, cudaStream_t stream) {
    switch (padded_columns(launch.problem.dim)) {
    case 32: return launch_joint_or_apart<Joint32, Apart32>(launch, stream);
    case 64: return launch_joint_or_apart<Joint64, Apart64>(launch, stream);
    default: return launch_for<Joint128>(launch, stream);
    }
}

} // namespace hw4::gpu
