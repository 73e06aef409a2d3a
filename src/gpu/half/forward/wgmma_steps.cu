// wgmma_stage, wgmma_ring, wgmma_ahead: the steps to wgmma_bf16; each includes the previous ones.
//
// Idea      One stage of keys and one of values; several; scores of the next tile while this one's become weights. A
//           block for each job.
// Limits    A multiprocessor has one block, so nothing overlaps with its beginning and its end.
#include <limits>

#include "src/gpu/half/forward/wgmma_kernel.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_forward {
namespace {

template <int kStages64, int kStages128, Overlap kOverlap>
void launch_step(Args args, cudaStream_t stream) {
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    args.counter = nullptr;
    if (args.dim <= 64)
        launch_half_kernel<Bf16, Variant<64, 3, kStages64, kOverlap>>(args, kAll, stream);
    else
        launch_half_kernel<Bf16, Variant<128, 2, kStages128, kOverlap>>(args, kAll, stream);
}

} // namespace

void launch_wgmma_stage(const Args& args, const Device&, cudaStream_t stream) {
    launch_step<1, 1, Overlap::copies>(args, stream);
}
void launch_wgmma_ring(const Args& args, const Device&, cudaStream_t stream) {
    launch_step<4, 2, Overlap::copies>(args, stream);
}
void launch_wgmma_ahead(const Args& args, const Device&, cudaStream_t stream) {
    launch_step<4, 2, Overlap::scores>(args, stream);
}

} // namespace hw4::gpu::half_forward
