// table_pairs: fixed16 on the integer tensor cores that every card from compute capability 8.0 on has. mma_pairs: with
// the card's own instruction for powers of 2.
//
// Idea      As in mma_groups (src/gpu/fixed/forward), with two digits: three products where there are six, and tiles of
//           128 keys. table_pairs looks powers of 2 up in the contract's table, which is right on any card. mma_pairs
//           takes the instruction that graphics cards have for them where it gives that table, which is found out once
//           (card_powers.h), else it does as table_pairs does.
// Who       A block is one group: 128 threads, 64 query rows, a warp 16 of them. The steps of a tile: see group.cuh.
// Memory    Digits of Q, and one tile of K and one of V: 21 KiB at d = 32, 41 at 64, 81 at 128; at 256 K and V take
//           turns in one buffer, 97. 255 registers, of which some are spilled (sm_90). Two blocks a multiprocessor,
//           beyond 128 one. Scratch: the digits of K and V. One code for all masks.
// Overlap   K of the next tile travels from when this one's scores are there, V from when its output is; not at 256.
// Elements  As in wgmma_pairs.
// Order     Integers within a tile; from tile to tile the contract's, in the order of the keys.
// Limits    As in mma_groups; table_pairs: a load for each weight.
#include "src/gpu/fixed/forward/prepare.h"
#include "src/gpu/fixed16/forward/kernels.h"
#include "src/gpu/fixed16/forward/mma_kernel.cuh"
#include "src/gpu/fixed16/forward/table_powers.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <int kDim>
void launch_for(const ForwardArgs& args, PowersAsTold powers, cudaStream_t stream) {
    using T = MmaVariant<TwoDigits, kDim>;
    using Work = PairGroup<MmaPairProducts<T>, PowersAsTold>;
    launch_mma<T, Work>(args, launch_prepare<TwoDigits>(args, Work::kFacts, 0, all_before(args), stream), powers,
                        stream);
}

void launch_by(const Launch& launch, PowersAsTold powers, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    switch (padded_columns(args.dim)) {
    case 32: return launch_for<32>(args, powers, stream);
    case 64: return launch_for<64>(args, powers, stream);
    case 128: return launch_for<128>(args, powers, stream);
    default: return launch_for<256>(args, powers, stream);
    }
}

} // namespace

Plan plan_mma_pairs(const Problem& problem, const Device&) {
    Plan plan;
    plan.shared_bytes = mma_memory_bytes<TwoDigits>(problem.dim);
    plan.scratch_bytes = prepared_bytes<TwoDigits>(problem);
    return plan;
}

void launch_table_pairs(const Launch& launch, cudaStream_t stream) { launch_by(launch, {.by_table = true}, stream); }

void launch_mma_pairs(const Launch& launch, cudaStream_t stream) {
    launch_by(launch, {.by_table = !launch.device.powers_follow_table}, stream);
}

} // namespace hw4::gpu
