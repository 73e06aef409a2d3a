// wgmma_bf16, wgmma_fp16: attention in bf16 or fp16 on Hopper's tensor cores, summed up in float32.
//
// Idea      wgmma computes scores and values, and weights stay in registers: the first product's sums, rounded to 16
//           bits, are the left operand of the second. The copy engine brings boxes of Q, K and V to rings of stages.
// Work      One block per multiprocessor, which takes job after job: d up to 64 three groups of 64 query rows, up to
//           128 two, and a warp that starts copies of tiles. Tiles of 128 keys. With few rows a block has fewer groups
//           (launch_for); one alone needs no turns.
// Memory    Q twice; 4 stages of K and of V at 64, 2 at 128: 176 and 192 KiB. 160, 240 or 256 registers per thread;
//           the copying warps give theirs back to the others.
// Overlap   A tile's scores with the weights of the previous tile, within a group; groups in turns, so that one makes
//           weights while the tensor cores work for another; copies with everything; the ends of jobs with the next.
// Masks     Tiles that no row of a group sees are skipped, and only those that some row sees in part are masked.
//           Longest jobs first, taken late, so that no block holds a second while others are idle; the rows of jobs
//           beyond the number of queries are before the first query.
// Order     Tiles from the last to the first, in each a fixed order (output_rows.cuh), in any block.
// Limits    Dims in between take as long as 64 or 128.
// Steps     report/report.md, sections 2.4 and 2.6. With 512 heads of N = 1024, d = 64, wgmma_bf16 has 420 TFLOP/s on
//           an H200, and 410 without turns.
// No help   TFLOP/s of bf16 on an H200, N = 8192, no mask, 64 heads of d = 64 and 32 of d = 128. Turns with a block
//           for each job: 465 and 546 where wgmma_ahead had 493 and 592. Measured while tops
//           stayed (output_rows.cuh), when the last step had 531 and 659. d = 64: two groups, 436, also with 192 keys;
//           one power of eight by a polynomial on the other units, 508, one of four, 484. d = 128: one of eight, 637;
//           tiles of 176 keys, 655 (causal 610 against 599).
#include <algorithm>
#include <cmath>

#include "src/gpu/half/forward/wgmma_kernel.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_forward {
namespace {

using For64 = Variant<64, 3, 4>;
using For128 = Variant<128, 2, 2>;

// The time of a launch whose blocks take `tile` for a tile of keys. The unit is the time that a block with the most
// groups takes.
template <class T>
double time_of(const Args& args, int64_t multiprocessors, double tile) {
    constexpr double kBetween = 1.25; // from one job to the next; measured on an H200, as are all tiles' times
    const View view(args);
    const Work work(args, T::kRows, kGroupRows);
    const auto of_job = [&](int first) { return view.tiles<T::kKeys>(first, first + T::kRows) * tile + kBetween; };
    const double shortest = of_job(-work.lead);
    const double longest = of_job(static_cast<int>(work.blocks - 1) * T::kRows - work.lead);
    const double jobs = static_cast<double>(work.jobs) / static_cast<double>(multiprocessors);
    return args.causal() ? std::max(longest, jobs * (longest + shortest) / 2) : longest * std::ceil(jobs);
}

// Blocks with fewer groups take longer for a row. With few rows they are faster, because more multiprocessors have a
// job. The bytes are the same.
template <class Number>
void launch_for(const Args& args, int64_t multiprocessors, cudaStream_t stream) {
    using Two64 = Variant<64, 2, 4>;
    using One64 = Variant<64, 1, 4, Overlap::scores>;
    using One128 = Variant<128, 1, 2, Overlap::scores>;
    if (args.dim <= For64::kDim) {
        const double three = time_of<For64>(args, multiprocessors, 1);
        const double two = time_of<Two64>(args, multiprocessors, 0.83);
        const double one = time_of<One64>(args, multiprocessors, 0.615);
        if (three <= std::min(one, two)) return launch_half_kernel<Number, For64>(args, multiprocessors, stream);
        if (two <= one) return launch_half_kernel<Number, Two64>(args, multiprocessors, stream);
        return launch_half_kernel<Number, One64>(args, multiprocessors, stream);
    }
    const double two = time_of<For128>(args, multiprocessors, 1);
    if (two <= time_of<One128>(args, multiprocessors, 0.765))
        return launch_half_kernel<Number, For128>(args, multiprocessors, stream);
    launch_half_kernel<Number, One128>(args, multiprocessors, stream);
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
