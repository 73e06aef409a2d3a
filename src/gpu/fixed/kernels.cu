#include "src/gpu/fixed/kernels.h"

#include "src/gpu/kernels.h"

namespace hw4::gpu {

std::vector<Kernel> fixed_kernels() {
    constexpr Needs kHopper = {.arch = 90, .last_arch = 90, .most_dim = kMostWgmmaColumns};
    constexpr Needs kHopperMasked = {.arch = 90, .last_arch = 90, .most_dim = kMostWgmmaColumns, .masks = kEveryMask};
    constexpr Needs kHopperAny = {
        .arch = 90, .last_arch = 90, .most_dim = kMostWgmmaColumns, .masks = kEveryMask, .elements = kEveryElement};
    constexpr Needs kAmpereMasked = {.arch = 80, .masks = kEveryMask};
    constexpr Needs kAmpereAny = {.arch = 80, .masks = kEveryMask, .elements = kEveryElement};
    return {
        {"mma_groups", "integer tensor cores by mma.sync, 64 query rows for each four warps", &kForward, &kFixed,
         kAmpereMasked, plan_mma_groups, launch_mma_groups},
        {"wgmma_group", "Hopper's asynchronous products, one group of four warps on a multiprocessor", &kForward,
         &kFixed, kHopper, plan_wgmma_groups, launch_wgmma_group},
        {"wgmma_groups", "several groups, so that some make weights while others multiply", &kForward, &kFixed,
         kHopperMasked, plan_wgmma_groups, launch_wgmma_groups},
        {"wgmma_shares", "the work divided evenly: blocks begin rows of others and hand their sums on", &kForward,
         &kFixed, kHopperMasked, plan_wgmma_shares, launch_wgmma_shares},
        {"table_pairs", "two digits: three products instead of six; powers of 2 from a table", &kForward, &kFixed16,
         kAmpereAny, plan_mma_pairs, launch_table_pairs},
        {"mma_pairs", "powers of 2 by the GPU's own instruction, which gives that table", &kForward, &kFixed16,
         kAmpereAny, plan_mma_pairs, launch_mma_pairs},
        {"wgmma_pairs", "Hopper's asynchronous products, 128 keys and both digits at once, in equal shares", &kForward,
         &kFixed16, kHopperAny, plan_wgmma_pairs, launch_wgmma_pairs},
    };
}

} // namespace hw4::gpu
