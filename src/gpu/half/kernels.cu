#include "src/gpu/half/kernels.h"

#include "src/gpu/fixed/kernels.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {

std::vector<Kernel> half_kernels() {
    // Rows must be multiples of 16 bytes.
    const auto ampere = [](List<Element> elements, bool caches = false) {
        return Needs{
            .arch = 80, .masks = kEveryMask, .elements = elements, .row_bytes = 16, .lengths = caches, .pages = caches};
    };
    const auto hopper = [&](List<Element> elements) {
        Needs needs = ampere(elements);
        needs.arch = needs.last_arch = 90;
        needs.most_dim = kMostWgmmaColumns;
        return needs;
    };
    return {
        {"mma_bf16", "tensor cores by mma.sync, weights in registers between the two products", &kForward, &kBf16,
         ampere(kBf16Only), plan_mma_half, launch_half<half_forward::launch_mma>},
        {"wgmma_stage", "Hopper's asynchronous products, tiles by the copy engine, one at a time", &kForward, &kBf16,
         hopper(kBf16Only), plan_wgmma_half, launch_half<half_forward::launch_wgmma_stage>},
        {"wgmma_ring", "tiles copied to a ring of stages, ahead of their use", &kForward, &kBf16, hopper(kBf16Only),
         plan_wgmma_half, launch_half<half_forward::launch_wgmma_ring>},
        {"wgmma_ahead", "the next tile's scores multiplied while this one's become weights", &kForward, &kBf16,
         hopper(kBf16Only), plan_wgmma_half, launch_half<half_forward::launch_wgmma_ahead>},
        {"wgmma_bf16", "blocks stay and take job after job, the longest first; groups begin products in turns",
         &kForward, &kBf16, hopper(kBf16Only), plan_wgmma_half, launch_half<half_forward::launch_wgmma>},
        {"split_bf16",
         "few query rows: the keys cut into parts for all blocks, K and V read once for all rows of a group", &kForward,
         &kBf16, ampere(kBf16Only, true), plan_split_half, half_forward::launch_split},
        {"mma_bf16_gradients", "mma.sync: keys stay for dK and dV, queries stay for dQ, pairs computed for both",
         &kBackward, &kBf16, ampere(kBf16Only), plan_mma_half_gradients,
         launch_half_gradients<half_forward::launch_mma, half_backward::launch_mma>},
        {"wgmma_bf16_gradients",
         "Hopper's asynchronous products; pairs computed once: blocks of keys add to dQ in memory, in turns",
         &kBackward, &kBf16, hopper(kBf16Only), plan_wgmma_half_gradients,
         launch_half_gradients<half_forward::launch_wgmma, half_backward::launch_wgmma>},
        {"mma_fp16", "tensor cores by mma.sync, weights in registers between the two products", &kForward, &kFp16,
         ampere(kFp16Only), plan_mma_half, launch_half<half_forward::launch_mma>},
        {"wgmma_fp16", "all that wgmma_bf16 does", &kForward, &kFp16, hopper(kFp16Only), plan_wgmma_half,
         launch_half<half_forward::launch_wgmma>},
        {"split_fp16",
         "few query rows: the keys cut into parts for all blocks, K and V read once for all rows of a group", &kForward,
         &kFp16, ampere(kFp16Only, true), plan_split_half, half_forward::launch_split},
        {"mma_fp16_gradients", "mma.sync: keys stay for dK and dV, queries stay for dQ, pairs computed for both",
         &kBackward, &kFp16, ampere(kFp16Only), plan_mma_half_gradients,
         launch_half_gradients<half_forward::launch_mma, half_backward::launch_mma>},
        {"wgmma_fp16_gradients", "all that wgmma_bf16_gradients does", &kBackward, &kFp16, hopper(kFp16Only),
         plan_wgmma_half_gradients, launch_half_gradients<half_forward::launch_wgmma, half_backward::launch_wgmma>},
    };
}

} // namespace hw4::gpu
