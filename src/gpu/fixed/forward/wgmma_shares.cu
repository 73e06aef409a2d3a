// wgmma_shares: wgmma_groups with the work divided evenly.
//
// Idea      As many blocks as the card holds at once, each with as many tiles as any other: a block begins the job that
//           another one ends, and hands its running sums on through memory (shares.h, handing_on.cuh). Where sequences
//           are long, a multiprocessor's groups are one block, which copies each tile once for all of them, and code
//           for tiles that all count alike (SteadyWeights) is worth finding out.
// Who       A block for each place on the card. Long sequences, d = 32: one block of four groups a multiprocessor; 64:
//           one of three; 128, whatever the length: one of two. Short ones: blocks as in wgmma_groups (takes_joint).
// Memory    Joint: 8, 6 or 3 stages at d = 32, 64 or 128: 133, 190 or 198 KiB; 128, 168 or 255 registers, of
//           which a few words are spilled (sm_90a). Apart: as in wgmma_groups. Scratch: the digits of K and V, and for
//           each block the running sums of its groups.
// Overlap   As in wgmma_groups, over the ends of jobs too: the next job's tiles and rows of Q are on their way
//           while the last tiles of this one are computed.
// Masks     Kernels of their own (wgmma_masked.cu). All jobs in one line, in equal shares; a unit's jobs end with its
//           last row, so that what the first lacks in rows are the cheapest. A group whose rows see less than the
//           others of its block passes over their tiles.
// Order     As in mma_groups: a job's tiles are done in their order, whichever block does them.
// Limits    Blocks are taken to be equally fast; groups of a block wait for the slowest of them.
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
