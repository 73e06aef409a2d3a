// wgmma_bf16_gradients, wgmma_fp16_gradients: backward in bf16 or fp16 on Hopper's tensor cores, summed up in float32,
// dQ in a fixed order.
//
// Idea      Five products, each once: keys stay, P and dS are the left operands of dV and dK from registers, and a
//           block's dQ is added to sums in memory (wgmma_kernel.cuh).
// Who       A block a multiprocessor, which takes job after job: two groups of 64 keys, a warp that has tiles copied,
//           one for each group that has dQ added.
// Memory    K and V; two stages of Q, dO and dQ; dS: 195 KiB at d = 64 with tiles of 128 queries, 210 KiB at 128 with
//           64. 240 registers a thread. In global memory L, origin and D of each row and the sums of dQ.
// Overlap   dP with P, dV with dS, at d = 128 scores of the next tile with the handing over of dQ; copies and additions
//           with all.
// Masks     Tiles of which no query sees a key are passed over, and only those of which some do not are masked.
// Order     args.h. Blocks of keys add to dQ from the last to the first, and are begun in that order.
// Slower    dQ by a kernel of its own, which computes S and dP again and needs no order: 0.87 to 0.91 times as fast.
#include "src/gpu/device/check.h"
#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/backward/wgmma_kernel.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_backward {
namespace {

using For64 = Variant<Sizes64>;
using For128 = Variant<Sizes128>;

template <class Number>
void launch_wgmma_for(const Args& args, int64_t blocks, cudaStream_t stream) {
    if (args.forward.dim <= For64::kDim)
        launch_gradient_kernel<Number, For64>(args, blocks, stream);
    else
        launch_gradient_kernel<Number, For128>(args, blocks, stream);
}

} // namespace

size_t wgmma_gradient_bytes(int64_t dim) {
    return dim <= For64::kDim ? sizeof(BlockMemory<For64>) : sizeof(BlockMemory<For128>);
}

void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream) {
    prepare_rows(args, stream);
    if (args.forward.type == NumberType::bf16)
        launch_wgmma_for<Bf16>(args, device.multiprocessors, stream);
    else
        launch_wgmma_for<Fp16>(args, device.multiprocessors, stream);
    finish_queries(args, stream);
}

} // namespace hw4::gpu::half_backward
