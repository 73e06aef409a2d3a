// wgmma_shares: wgmma_groups with the work divided evenly.
//
// Idea      As many blocks as the GPU runs at once, each with the same number of tiles: a block starts a job that
//           another one ends, and passes its running sums on through memory (shares.h, handover.cuh). For long
//           sequences, a multiprocessor's groups are one block, which copies each tile once for all of them, and it
//           pays to find out whether all tiles have the same scales (SteadyWeights).
// Work      A block for each place on the GPU. Long sequences, d = 32: one block of four groups per multiprocessor; 64:
//           one of three; 128, for any length: one of two. Short ones: blocks as in wgmma_groups (takes_joint).
// Memory    Joint: 8, 6 or 3 stages at d = 32, 64 or 128: 133, 190 or 198 KiB; 128, 168 or 255 registers,
//           a few words spilled (sm_90a). Apart: as in wgmma_groups. Scratch: the digits of K and V, and for
//           each block the running sums of its groups.
// Overlap   As in wgmma_groups, also across the ends of jobs: the next job's tiles and rows of Q are copied
//           while the last tiles of this one are computed.
// Masks     Kernels of their own (wgmma_masked.cu). All jobs form one line, in equal shares; a unit's jobs end with its
//           last row, so that the rows missing from the first job are the cheapest. A group with rows that see less
//           than the others of its block skips the other tiles.
// Order     As in mma_groups: a job's tiles are computed in order, by one block or two.
// Limits    Blocks are assumed to be equally fast; groups of a block wait for the slowest of them.
#include <algorithm>

#include "src/gpu/fixed/forward/wgmma_kernel.cuh"
#include "src/gpu/fixed/kernels.h"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

size_t shared_bytes_for(int64_t dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(BlockMemory<Joint32>);
    case 64: return sizeof(BlockMemory<Joint64>);
    default: return sizeof(BlockMemory<Joint128>);
    }
}

// Also enough for a part of the batches or of the queries, which may take the other kind of block.
size_t handover_bytes_of_parts(const Problem& problem, const Device& device) {
    switch (padded_columns(problem.dim)) {
    case 32: return std::max(handover_bytes<Apart32>(problem, device), handover_bytes<Joint32>(problem, device));
    case 64: return std::max(handover_bytes<Apart64>(problem, device), handover_bytes<Joint64>(problem, device));
    default: return handover_bytes<Joint128>(problem, device);
    }
}

} // namespace

template void fixed_point::launch_wgmma<Apart32>(const ForwardArgs&, int64_t, cudaStream_t);
template void fixed_point::launch_wgmma<Apart64>(const ForwardArgs&, int64_t, cudaStream_t);
template void fixed_point::launch_wgmma<Joint128>(const ForwardArgs&, int64_t, cudaStream_t);

Plan plan_wgmma_shares(const Problem& problem, const Device& device) {
    Plan plan;
    plan.shared_bytes = shared_bytes_for(problem.dim);
    plan.scratch_bytes = prepared_bytes<ThreeDigits>(problem) + handover_bytes_of_parts(problem, device);
    return plan;
}

void launch_wgmma_shares(const Launch& launch, cudaStream_t stream) {
    switch (padded_columns(launch.problem.dim)) {
    case 32: return launch_joint_or_apart<Joint32, Apart32>(launch, stream);
    case 64: return launch_joint_or_apart<Joint64, Apart64>(launch, stream);
    default: return launch_shares<Joint128>(launch, stream);
    }
}

} // namespace hw4::gpu
