// wgmma_pairs: fixed16 with Hopper's asynchronous products, and the work divided evenly.
//
// Idea      As in wgmma_shares (src/gpu/fixed/forward), with two digits: a product of 64 rows takes all 128 keys of a
//           tile and both digits of K at once, which leaves little besides tensor cores and the making of weights.
//           Scores begin at 1.5 * 2^23, so that the tensor cores' integers are floats without a conversion. A GPU's
//           instruction for powers of 2 must give the contract's table; else table_pairs is used (card_powers.cu).
// Work      A block for each place on the GPU. Long sequences, d = 32 and 64: one block of three groups per
//           multiprocessor; 128, for any length: one of two. Short ones (takes_joint): three blocks of one group,
//           except whole rows (below).
// Memory    Joint: 8, 5 or 3 stages at d = 32, 64 or 128: 144, 188 or 227 KiB, and 2 more for whole rows (below); 168,
//           168 or 255 registers, at 64 with some spilled (sm_90a). Scratch: the digits of K and V, for each block the
//           running sums of its groups, and at 64 for each head how much of it is ready.
// Overlap   Products of one group with the weights of others, and within a group the products of the first half of a
//           tile's weights with the making of the second (d up to 64); other overlaps as in wgmma_shares.
// Rows      Whole rows, of exactly 32 or 64 columns, without statistics, have a kernel of their own
//           (wgmma_pairs_whole.cu), if there are more jobs than multiprocessors and rows are not too few
//           (takes_whole): one block of three groups, with less work between jobs and shorter code. At 64, with many
//           heads and no mask, most are prepared beside the products.
// Masks     Kernels of their own: for whole rows of 64 columns that all see a key, and (wgmma_pairs_masked.cu) for
//           others. For whole rows, a group that sees at most half of its last tile's keys computes half of the tile,
//           and the groups of a block take turns with the rows that see most.
// Elements  float32, bf16 or fp16, the same for all tensors. The pre-pass has code for each; whole rows for 32 and for
//           16 bits; otherwise rows of Q and O take a branch that is the same for a whole launch, since kernels for
//           each would take long to compile.
// Order     As in mma_pairs: a job's tiles are computed in order, by one block or two.
// Limits    No pipe alone: tensor cores, issue slots and the chain from scores to weights hold each other up; then
//           power.
// Tried     For whole rows under the mask (16,32,N,64, bf16, N = 512 and 1024), without a gain: O computed before the
//           next rows of Q are loaded (-1 %; -2 % without a mask); these rows prefetched into the L2 cache (0 to 1 %);
//           two buffers for their digits, which saves a barrier (-3 %); blocks of one group (-5 and -16 %); 160
//           registers, which leave space for a block that prepares heads beside (-8 %); scratch memory cleared by a
//           kernel that the pre-pass overlaps (0 %); the last jobs, or all, from a queue, the longest first (+2 to
//           -2 %; at N = 256 -5 %, at 2048 +3 %); K and V read and O written without keeping them in the L2 (-1 %);
//           rows of Q fetched through shared memory (-4 %: less is left of the L1 cache, which holds spilled
//           registers); tiles fetched one earlier (0 to -1 %); digits of K written in whole lines (0 %).
#include <algorithm>

#include "src/gpu/fixed/forward/wgmma_whole.cuh"
#include "src/gpu/fixed/kernels.h"
#include "src/gpu/fixed16/forward/wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

size_t shared_bytes_for(int64_t dim) {
    switch (padded_columns(dim)) {
    case 32: return sizeof(WholeMemory<WholeVariant<PairsJoint32, float>>);
    case 64:
        return std::max(sizeof(WholeMemory<WholeVariant<PairsJoint64, float>>),
                        sizeof(WholeMemory<WholeVariant<PairsJoint64::Masked, float>>));
    default: return sizeof(BlockMemory<PairsJoint128>);
    }
}

// Bytes behind the digits. Also enough for a part of the batches or of the queries, which may take the other kind of
// block.
size_t bytes_after_digits(const Problem& problem, const Device& device) {
    switch (padded_columns(problem.dim)) {
    case 32:
        return std::max(handover_bytes<PairsApart32>(problem, device), handover_bytes<PairsJoint32>(problem, device));
    case 64:
        return static_cast<size_t>(ready_bytes(problem.batches * problem.kv_heads)) +
               std::max(handover_bytes<PairsApart64>(problem, device), handover_bytes<PairsJoint64>(problem, device));
    default: return handover_bytes<PairsJoint128>(problem, device);
    }
}

} // namespace

Plan plan_wgmma_pairs(const Problem& problem, const Device& device) {
    Plan plan;
    plan.shared_bytes = shared_bytes_for(problem.dim);
    plan.scratch_bytes = prepared_bytes<TwoDigits>(problem) + bytes_after_digits(problem, device);
    return plan;
}

void launch_wgmma_pairs(const Launch& launch, cudaStream_t stream) {
    if (!launch.device.powers_follow_table) return launch_table_pairs(launch, stream);
    if (launch_pairs_whole(launch, stream)) return;
    switch (padded_columns(launch.problem.dim)) {
    case 32: return launch_joint_or_apart<PairsJoint32, PairsApart32>(launch, stream);
    case 64: return launch_joint_or_apart<PairsJoint64, PairsApart64>(launch, stream);
    default: return launch_shares<PairsJoint128>(launch, stream);
    }
}

} // namespace hw4::gpu
