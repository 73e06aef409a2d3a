// wgmma_bf16, wgmma_fp16: attention in bf16 or fp16 on Hopper's tensor cores, summed up in float32.
//
// Idea      wgmma computes scores and values, and weights stay in registers: the first product's sums, rounded to 16
//           bits, are the left operand of the second. The copy engine brings boxes of Q, K and V to rings of stages.
// Who       One block per multiprocessor, which takes job after job: d up to 64 three groups of 64 query rows, up to
//           128 two, and a warp that starts copies of tiles. Tiles of 128 keys.
// Memory    Q twice; 4 stages of K and of V at 64, 2 at 128: 176 and 192 KiB. 160 or 240 registers per thread; the
//           copying warps give theirs back to the others.
// Overlap   A tile's scores with the weights of the previous tile, within a group; groups in turns, so that one makes
//           weights while the tensor cores work for another; copies with everything; the ends of jobs with the next.
// Masks     Tiles that no row of a group sees are skipped, and only those that some row sees in part are masked.
//           Longest jobs first; the rows of jobs beyond the number of queries are before the first query.
// Order     Tiles from the last to the first, in each a fixed order (output_rows.cuh), in any block.
// Limits    Dims in between take as long as 64 or 128.
// Steps     report/report.md, sections 2.4 and 2.6. With 512 heads of N = 1024, d = 64, wgmma_bf16 has 420 TFLOP/s on
//           an H200, and 410 without turns.
// No help   TFLOP/s of bf16 on an H200, N = 8192, no mask, 64 heads of d = 64 and 32 of d = 128. Turns with a block
//           for each job: 465 and 546 where wgmma_ahead had 493 and 592. Measured while tops
//           stayed (output_rows.cuh), when the last step had 531 and 659. d = 64: two groups, 436, also with 192 keys;
//           one power of eight by a polynomial on the other units, 508, one of four, 484. d = 128: one of eight, 637;
//           tiles of 176 keys, 655 (causal 610 against 599).
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
