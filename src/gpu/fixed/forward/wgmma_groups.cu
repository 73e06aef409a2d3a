// One group of four warps on a multiprocessor, or several, each a block of its own (at d = 128 two in one block). A
// block for each job.
#include <limits>

#include "src/gpu/fixed/forward/kernels.h"
#include "src/gpu/fixed/forward/wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <class T>
void launch_for(const Launch& launch, cudaStream_t stream) {
    constexpr int64_t kOneForEachJob = std::numeric_limits<int64_t>::max();
    launch_wgmma<T>(forward_args(launch), kOneForEachJob, stream);
}

size_t shared_bytes_for(int64_t dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(BlockMemory<Alone32>);
    case 64: return sizeof(BlockMemory<Alone64>);
    default: return sizeof(BlockMemory<Joint128>);
    }
}

} // namespace

Plan plan_wgmma_groups(const Problem& problem, const Device&) {
    Plan plan;
    plan.shared_bytes = shared_bytes_for(problem.dim);
    plan.scratch_bytes = prepared_bytes(problem);
    return plan;
}

void launch_wgmma_group(const Launch& launch, cudaStream_t stream) {
    switch (padded_columns(launch.problem.dim)) {
    case 32: return launch_for<Alone32>(launch, stream);
    case 64: return launch_for<Alone64>(launch, stream);
    default: return launch_for<Alone128>(launch, stream);
    }
}

void launch_wgmma_groups(const Launch& launch, cudaStream_t stream) {
    switch (padded_columns(launch.problem.dim)) {
    case 32: return launch_for<Apart32>(launch, stream);
    case 64: return launch_for<Apart64>(launch, stream);
    default: return launch_for<Joint128>(launch, stream);
    }
}

} // namespace hw4::gpu
