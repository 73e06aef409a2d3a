// wgmma_again: a step to wgmma_bf16_gradients, with dQ by a kernel of its own.
//
// Idea      One kernel for dK and dV, whose blocks keep keys; one for dQ, whose blocks keep queries. Both compute S and
// dP: seven products for five, but no sums in memory, and nobody waits for anybody.
#include "src/gpu/half/backward/kernels.h"
#include "src/gpu/half/backward/rows.h"
#include "src/gpu/half/backward/wgmma_queries.cuh"

namespace hw4::gpu::half_backward {
namespace {

template <class Sizes, int kTileKeys>
void launch_again_for(const Args& args, int64_t blocks, cudaStream_t stream) {
    launch_gradient_kernel<Bf16, Variant<Sizes, Queries::none>>(args, blocks, stream);
    launch_query_kernel<Bf16, QueryVariant<Sizes::kDim, kTileKeys>>(args, blocks, stream);
}

} // namespace

size_t wgmma_again_bytes(int64_t dim) {
    return dim <= 64 ? sizeof(BlockMemory<Variant<Sizes64, Queries::none>>)
                     : sizeof(QueryMemory<QueryVariant<128, 128>>);
}

void launch_wgmma_again(const Args& args, const Device& device, cudaStream_t stream) {
    prepare_rows(args, stream);
    if (args.forward.dim <= 64)
        launch_again_for<Sizes64, 128>(args, device.multiprocessors, stream);
    else
        launch_again_for<Sizes128, 128>(args, device.multiprocessors, stream);
}

} // namespace hw4::gpu::half_backward
