#include "src/gpu/device/check.h"
#include "src/gpu/f32/backward/round_args.h"
#include "src/gpu/f32/backward/sum_tiles.cuh"

namespace hw4::gpu {
namespace {

template <class Visit>
void with_sum_tiling(int dim, Visit visit) {
    if (dim == 32) return visit(SumTiling<32, true>());
    if (dim < 32) return visit(SumTiling<32, false>());
    if (dim % 64 == 0) return visit(SumTiling<64, true>());
    return visit(SumTiling<64, false>());
}

} // namespace

size_t sum_bytes(int dim) {
    size_t bytes = 0;
    with_sum_tiling(dim, [&](auto tiling) { bytes = sizeof(SumMemory<decltype(tiling)>); });
    return bytes;
}

void launch_sums(RoundArgs args, cudaStream_t stream) {
    with_sum_tiling(args.all.forward.dim, [&](auto tiling) {
        using T = decltype(tiling);
        constexpr size_t kBytes = sizeof(SumMemory<T>);
        HW4_CUDA(cudaFuncSetAttribute(sum_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
        const SumGrid grid = sum_grid<T>(args);
        const uint32_t key_jobs = grid.key_jobs(args.units);
        const uint32_t end = key_jobs + (args.all.gives_dq() ? grid.row_jobs(args.units) : 0);
        args.first_sum = args.all.gives_dk_dv() ? 0 : key_jobs;
        sum_kernel<T><<<end - args.first_sum, T::kThreads, kBytes, stream>>>(args);
    });
    HW4_CUDA_LAUNCHED("sums");
}

} // namespace hw4::gpu
