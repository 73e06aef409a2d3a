// wgmma_group: Hopper's asynchronous products. wgmma_groups: several groups of warps on a multiprocessor.
//
// Idea      wgmma reads Q, K and V from shared memory, and one asynchronous instruction computes the products of four
//           warps: only the weights pass through registers. Tiles arrive in one piece each, by the copy engine, in a
//           ring of stages (wgmma_block.cuh). The kernel starts while the pre-pass ends (handover.cuh). wgmma_groups:
//           while one group waits for the tensor cores, the others make weights.
// Work      A group of 128 threads has 64 query rows; a block for each job, which is a group's rows. wgmma_group: one
//           block per multiprocessor, since so many stages leave no space for another. wgmma_groups: blocks of one
//           group, four per multiprocessor at d = 32, three at 64; at 128 one block of two groups, which share its
//           tiles. One warp of a block starts the copies of tiles.
// Memory    wgmma_group: 9, 5 or 3 stages at d = 32, 64 or 128: 125, 139 or 173 KiB; 175, 220 or 255 registers.
//           wgmma_groups: 2, 2 or 3 stages: 34, 64 or 198 KiB per block; 128, 168 or 255 registers, a few words
//           spilled (sm_90a). Scratch: the digits of K and V. Under a mask wgmma_groups has kernels of its own
//           (wgmma_masked.cu), with as many registers and a few more words spilled; wgmma_group has none.
// Overlap   Copies of tiles, one to four before their turn, with everything else; loads of the next rows of Q with
//           stores of results; products of one group with the weights of others.
// Order     As in mma_groups.
// Limits    wgmma_group: tensor cores are idle while weights are made, and vice versa. wgmma_groups:
//           doing both at once is faster than one after the other, but not twice: busy tensor cores leave issue slots
//           for only part of the other arithmetic. The last blocks leave multiprocessors without work.
#include <limits>

#include "src/gpu/fixed/forward/wgmma_kernel.cuh"
#include "src/gpu/fixed/kernels.h"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

constexpr int64_t kOneForEachJob = std::numeric_limits<int64_t>::max();

template <class T>
void launch_alone(const Launch& launch, cudaStream_t stream) {
    launch_wgmma<T>(forward_args(launch), kOneForEachJob, stream);
}

template <class T>
void launch_for(const Launch& launch, cudaStream_t stream) {
    launch_wgmma_or_masked<T>(launch, kOneForEachJob, stream);
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
    plan.scratch_bytes = prepared_bytes<ThreeDigits>(problem);
    return plan;
}

void launch_wgmma_group(const Launch& launch, cudaStream_t stream) {
    switch (padded_columns(launch.problem.dim)) {
    case 32: return launch_alone<Alone32>(launch, stream);
    case 64: return launch_alone<Alone64>(launch, stream);
    default: return launch_alone<Alone128>(launch, stream);
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
