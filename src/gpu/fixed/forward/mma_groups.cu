// mma_groups: integer tensor cores, by the instructions that every card from compute capability 8.0 on has.
//
// Idea      A number of three digits is exact in bytes: scores and outputs are sums of products of bytes, which tensor
//           cores take at many times the rate of fma. A pre-pass makes the digits of K and V once for all query rows
//           (prepare.cu), in the order in which they are needed.
// Who       A block is one group: 128 threads, 64 query rows, a warp 16 of them. The steps of a tile: see group.cuh.
// Memory    Digits of Q, and one tile of K and one of V: 19 KiB at d = 32, 37 at 64, 73 at 128; at 256 K and V take
//           turns in one buffer, 97. 221 registers at 32, 254 and 255 beyond (sm_90): none spilled up to 64, a few
//           words at 128, a kilobyte at 256. Two blocks a multiprocessor, beyond 128 one. Scratch: the digits of K and
//           V. One code for all masks.
// Overlap   K of the next tile travels from when this one's scores are there, V from when its output is; not at 256.
// Order     Integers within a tile; from tile to tile the contract's, in the order of the keys.
// Limits    A warp's products and its weights take turns: only another warp fills the gaps, and both leave little room
//           in registers. Operands pass through registers, a word at a time.
#include "src/gpu/fixed/forward/kernels.h"
#include "src/gpu/fixed/forward/mma_kernel.cuh"
#include "src/gpu/fixed/forward/prepare.h"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

template <int kDim>
void launch_for(const ForwardArgs& args, cudaStream_t stream) {
    using T = MmaVariant<ThreeDigits, kDim>;
    launch_mma<T, Group<MmaProducts<T>>>(
        args, launch_prepare<ThreeDigits>(args, Facts::needed, 0, all_before(args), stream), {}, stream);
}

} // namespace

Plan plan_mma_groups(const Problem& problem, const Device&) {
    Plan plan;
    plan.shared_bytes = mma_memory_bytes<ThreeDigits>(problem.dim);
    plan.scratch_bytes = prepared_bytes<ThreeDigits>(problem);
    return plan;
}

void launch_mma_groups(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    switch (padded_columns(args.dim)) {
    case 32: return launch_for<32>(args, stream);
    case 64: return launch_for<64>(args, stream);
    case 128: return launch_for<128>(args, stream);
    default: return launch_for<256>(args, stream);
    }
}

} // namespace hw4::gpu
