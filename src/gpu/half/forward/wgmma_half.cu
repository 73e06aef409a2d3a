// wgmma_bf16, wgmma_fp16: attention in bf16 or fp16 on Hopper's tensor cores, summed up in float32.
//
// Idea      Scores and values are wgmma's, weights stay in registers: the first product's sums, rounded to 16 bits, are
//           the left operand of the second. Boxes of Q, K and V arrive by the copy engine in rings of stages.
// Who       A block a multiprocessor, which takes job after job: d to 64 three groups of 64 query rows, to 128 two, and
//           a warp that has tiles copied. Tiles of 128 keys.
// Memory    Q twice; 4 stages of K and of V at 64, 2 at 128: 176 and 192 KiB. 160 or 240 registers a thread, those of
//           the copying warps given back to the others.
// Overlap   A tile's scores with the weights of the one before, within a group; groups in turns, so that one makes
//           weights while the tensor cores work for another; copies with all else; the ends of jobs with the next.
// Masks     Tiles that no row of a group sees are passed over, and only those that some row sees part of are masked.
//           Longest jobs first; what jobs have more rows than there are queries is before the first.
// Order     Tiles from the last to the first, in each a fixed order (output_rows.cuh), whichever block does a job.
// Limits    Dims between take as long as 64 or 128.
// Steps     TFLOP/s of bf16 on an H200, N = 8192, no mask, 64 heads of d = 64 and 32 of d = 128: wgmma_stage 469 and
//           513, wgmma_ring 474 and 531, wgmma_ahead 493 and 592, wgmma_bf16 490 and 581. Without turns
//           wgmma_bf16 has the same there, and 410 for 420 with 512 heads of N = 1024, d = 64.
// No help   Turns where a job is a block: 465 and 546 instead of wgmma_ahead's 493 and 592. Measured while tops stayed
//           (output_rows.cuh), when the last step had 531 and 659. d = 64: two groups, 436, also with 192 keys; one
//           power of eight by a polynomial on the other units, 508, one of four, 484. d = 128: one of eight, 637; tiles
//           of 176 keys, 655 (causal 610 against 599).
#include "src/gpu/half/forward/wgmma_kernel.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_forward {
namespace {

using For64 = Variant<64, 3, 4>;
using For128 = Variant<128, 2, 2>;

template <class Number>
void launch_for(const Args& args, int64_t blocks, cudaStream_t stream) {
    if (args.dim <= For64::kDim)
        launch_half_kernel<Number, For64>(args, blocks, stream);
    else
        launch_half_kernel<Number, For128>(args, blocks, stream);
}

} // namespace

size_t wgmma_shared_bytes(int64_t dim) {
    return dim <= For64::kDim ? sizeof(BlockMemory<For64>) : sizeof(BlockMemory<For128>);
}

void launch_wgmma(const Args& args, const Device& device, cudaStream_t stream) {
    if (args.type == NumberType::bf16)
        launch_for<Bf16>(args, device.multiprocessors, stream);
    else
        launch_for<Fp16>(args, device.multiprocessors, stream);
}

} // namespace hw4::gpu::half_forward
