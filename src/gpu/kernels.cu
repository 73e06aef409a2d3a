#include "src/gpu/kernels.h"

#include "src/gpu/f32/backward/kernels.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/fixed/forward/kernels.h"
#include "src/gpu/fixed16/forward/kernels.h"
#include "src/gpu/half/backward/kernels.h"
#include "src/gpu/half/forward/kernels.h"
#include "src/problem/words.h"

namespace hw4::gpu {
namespace {

// "7.5"
std::string capability(int arch) { return std::to_string(arch / 10) + "." + std::to_string(arch % 10); }

// What the kernel needs and the problem or the card has not, whatever the plan is; for a sentence that begins with the
// kernel. Empty: nothing.
std::string lacking(const Kernel& kernel, const Problem& problem, const Device& device) {
    const Needs& needs = kernel.needs;
    const Problem whole = problem.of_operation(whole_of(*problem.operation));
    const std::string missing = what_it_lacks(*kernel.does, needs.masks, whole);
    if (!missing.empty()) return missing;
    if (problem.operation != kernel.does && !kernel.does_parts) return "gives all gradients of a head of keys or none";
    for (const Operand& operand : problem.operation->inputs)
        if (problem.rows_of(operand) > kMostBatchRows)
            return "takes up to " + std::to_string(kMostBatchRows) + " rows of " + operand.name +
                   " in a batch, this case has " + std::to_string(problem.rows_of(operand));
    if (problem.dim > needs.most_dim)
        return "takes d up to " + std::to_string(needs.most_dim) + ", this case has " + std::to_string(problem.dim);
    if (device.arch < needs.arch)
        return "needs compute capability " + capability(needs.arch) + ", this card has " + capability(device.arch);
    if (device.arch > needs.last_arch)
        return "is for compute capability " + capability(needs.last_arch) + " and no later one, this card has " +
               capability(device.arch);
    if (!needs.has_own_code && device.code_arch < needs.arch)
        return "needs code for compute capability " + capability(needs.arch) +
               ", what this build runs on this card is for " + capability(device.code_arch) +
               "; make ARCHS=" + std::to_string(device.arch) + " makes one with it";
    return "";
}

Plan planned(const Kernel& kernel, const Problem& problem, const Device& device) {
    Plan plan;
    plan.why_not = lacking(kernel, problem, device);
    if (!plan.why_not.empty()) return plan;
    plan = kernel.plan(problem, device);
    if (plan.why_not.empty() && device.shared_bytes < plan.shared_bytes)
        plan.why_not = "needs " + std::to_string(plan.shared_bytes) +
                       " bytes of shared memory a block, this card has " + std::to_string(device.shared_bytes);
    return plan;
}

} // namespace

const std::vector<Kernel>& kernels() {
    static constexpr Needs kAny = {.masks = kEveryMask};
    static constexpr Needs kTiles = {.arch = 80, .most_dim = kMostTileColumns};
    static constexpr Needs kTopTiles = {.arch = 80, .most_dim = kMostTileColumns, .masks = kEveryMask};
    static constexpr Needs kHopper = {.arch = 90, .last_arch = 90, .most_dim = kMostWgmmaColumns};
    static constexpr Needs kHopperMasked = {
        .arch = 90, .last_arch = 90, .most_dim = kMostWgmmaColumns, .masks = kEveryMask};
    static const std::vector<Kernel> table = {
        {.name = "plain_rows",
         .idea = "the baseline: a warp for each query row, straight from global memory",
         .does = &kForward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_rows,
         .launch = launch_plain_rows},
        {.name = "shared_tiles",
         .idea = "32 query rows share tiles of 32 keys in shared memory",
         .does = &kForward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_rows,
         .launch = launch_shared_tiles},
        {.name = "padded_tiles",
         .idea = "tile rows 33 floats apart, against bank conflicts",
         .does = &kForward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_rows,
         .launch = launch_padded_tiles},
        {.name = "coalesced_tiles",
         .idea = "tiles loaded along their rows, 128 bytes a warp",
         .does = &kForward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_rows,
         .launch = launch_coalesced_tiles},
        {.name = "unrolled_tiles",
         .idea = "loops over a tile's columns and keys unrolled",
         .does = &kForward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_rows,
         .launch = launch_unrolled_tiles},
        {.name = "register_rows",
         .idea = "a row's running output and totals in registers",
         .does = &kForward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_rows,
         .launch = launch_register_rows},
        {.name = "register_tiles",
         .idea = "8 x 8 scores and outputs a thread, as outer products; no running maximum",
         .does = &kForward,
         .under = &kF32,
         .needs = kTiles,
         .plan = plan_tiles,
         .launch = launch_register_tiles},
        {.name = "paired_lanes",
         .idea = "lanes placed so that a 16-byte shared load takes half the time",
         .does = &kForward,
         .under = &kF32,
         .needs = kTiles,
         .plan = plan_tiles,
         .launch = launch_paired_lanes},
        {.name = "async_tiles",
         .idea = "tiles copied in the background while others are computed",
         .does = &kForward,
         .under = &kF32,
         .needs = kTiles,
         .plan = plan_tiles,
         .launch = launch_async_tiles},
        {.name = "ahead_tiles",
         .idea = "the operands of a step loaded while the step before is computed",
         .does = &kForward,
         .under = &kF32,
         .needs = kTiles,
         .plan = plan_tiles,
         .launch = launch_ahead_tiles},
        {.name = "woven_tiles",
         .idea = "copies woven into the arithmetic, a few with every round",
         .does = &kForward,
         .under = &kF32,
         .needs = kTiles,
         .plan = plan_tiles,
         .launch = launch_woven_tiles},
        {.name = "drawn_tiles",
         .idea = "blocks draw rows of tiles from a queue, the last ones in pieces",
         .does = &kForward,
         .under = &kF32,
         .needs = kTopTiles,
         .plan = plan_drawn_tiles,
         .launch = launch_drawn_tiles},
        {.name = "plain_gradients",
         .idea = "the baseline: a warp for each row of dQ, and for each of dK and dV, straight from global memory",
         .does = &kBackward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_plain_gradients,
         .launch = launch_plain_gradients,
         .does_parts = true},
        {.name = "shared_gradients",
         .idea = "32 rows share tiles of 32 others in shared memory, their sums in registers",
         .does = &kBackward,
         .under = &kF32,
         .needs = kAny,
         .plan = plan_plain_gradients,
         .launch = launch_shared_gradients,
         .does_parts = true},
        {.name = "kept_pairs",
         .idea = "P and dS in memory: each pair computed once, then three products in register tiles",
         .does = &kBackward,
         .under = &kF32,
         .needs = kTopTiles,
         .plan = plan_kept_pairs,
         .launch = launch_kept_pairs,
         .does_parts = true},
        {.name = "mma_groups",
         .idea = "integer tensor cores by mma.sync, 64 query rows for each four warps",
         .does = &kForward,
         .under = &kFixed,
         .needs = {.arch = 80, .masks = kEveryMask},
         .plan = plan_mma_groups,
         .launch = launch_mma_groups},
        {.name = "wgmma_group",
         .idea = "Hopper's asynchronous products, one group of four warps on a multiprocessor",
         .does = &kForward,
         .under = &kFixed,
         .needs = kHopper,
         .plan = plan_wgmma_groups,
         .launch = launch_wgmma_group},
        {.name = "wgmma_groups",
         .idea = "several groups, so that some make weights while others multiply",
         .does = &kForward,
         .under = &kFixed,
         .needs = kHopperMasked,
         .plan = plan_wgmma_groups,
         .launch = launch_wgmma_groups},
        {.name = "wgmma_shares",
         .idea = "the work divided evenly: blocks begin rows of others and hand their sums on",
         .does = &kForward,
         .under = &kFixed,
         .needs = kHopperMasked,
         .plan = plan_wgmma_shares,
         .launch = launch_wgmma_shares},
        {.name = "table_pairs",
         .idea = "two digits: three products instead of six; powers of 2 from a table",
         .does = &kForward,
         .under = &kFixed16,
         .needs = {.arch = 80, .masks = kEveryMask},
         .plan = plan_mma_pairs,
         .launch = launch_table_pairs,
         .takes_narrow = true},
        {.name = "mma_pairs",
         .idea = "powers of 2 by the card's own instruction, which gives that table",
         .does = &kForward,
         .under = &kFixed16,
         .needs = {.arch = 80, .masks = kEveryMask},
         .plan = plan_mma_pairs,
         .launch = launch_mma_pairs,
         .takes_narrow = true},
        {.name = "wgmma_pairs",
         .idea = "Hopper's asynchronous products, 128 keys and both digits at once, in equal shares",
         .does = &kForward,
         .under = &kFixed16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_pairs,
         .launch = launch_wgmma_pairs,
         .takes_narrow = true},
        {.name = "mma_bf16",
         .idea = "tensor cores by mma.sync, weights in registers between the two products",
         .does = &kForward,
         .under = &kBf16,
         .needs = {.arch = 80, .masks = kEveryMask},
         .plan = plan_mma_half,
         .launch = launch_mma_bf16,
         .launch_narrow = half_forward::launch_mma},
        {.name = "wgmma_stage",
         .idea = "Hopper's asynchronous products, tiles by the copy engine, one at a time",
         .does = &kForward,
         .under = &kBf16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half,
         .launch = launch_wgmma_stage,
         .launch_narrow = half_forward::launch_wgmma_stage},
        {.name = "wgmma_ring",
         .idea = "tiles copied to a ring of stages, ahead of their use",
         .does = &kForward,
         .under = &kBf16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half,
         .launch = launch_wgmma_ring,
         .launch_narrow = half_forward::launch_wgmma_ring},
        {.name = "wgmma_ahead",
         .idea = "the next tile's scores multiplied while this one's become weights",
         .does = &kForward,
         .under = &kBf16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half,
         .launch = launch_wgmma_ahead,
         .launch_narrow = half_forward::launch_wgmma_ahead},
        {.name = "wgmma_turns",
         .idea = "groups begin products in turns, so that one makes weights while others multiply",
         .does = &kForward,
         .under = &kBf16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half,
         .launch = launch_wgmma_turns,
         .launch_narrow = half_forward::launch_wgmma_turns},
        {.name = "wgmma_bf16",
         .idea = "blocks stay and take jobs as they come, the longest first",
         .does = &kForward,
         .under = &kBf16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half,
         .launch = launch_wgmma_bf16,
         .launch_narrow = half_forward::launch_wgmma},
        {.name = "mma_bf16_gradients",
         .idea = "mma.sync: keys stay for dK and dV, queries stay for dQ, pairs computed for both",
         .does = &kBackward,
         .under = &kBf16,
         .needs = {.arch = 80, .masks = kEveryMask},
         .plan = plan_mma_half_gradients,
         .launch = launch_mma_bf16_gradients,
         .launch_narrow_backward = half_backward::launch_mma},
        {.name = "wgmma_again",
         .idea = "the same with Hopper's asynchronous products, tiles by the copy engine, blocks that stay",
         .does = &kBackward,
         .under = &kBf16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half_gradients,
         .launch = launch_wgmma_again,
         .launch_narrow_backward = half_backward::launch_wgmma_again},
        {.name = "wgmma_bf16_gradients",
         .idea = "pairs computed once: blocks of keys add to dQ in memory, in turns",
         .does = &kBackward,
         .under = &kBf16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half_gradients,
         .launch = launch_wgmma_bf16_gradients,
         .launch_narrow_backward = half_backward::launch_wgmma,
         .has_turns = true},
        {.name = "mma_fp16",
         .idea = "tensor cores by mma.sync, weights in registers between the two products",
         .does = &kForward,
         .under = &kFp16,
         .needs = {.arch = 80, .masks = kEveryMask},
         .plan = plan_mma_half,
         .launch = launch_mma_fp16,
         .launch_narrow = half_forward::launch_mma},
        {.name = "wgmma_fp16",
         .idea = "all that wgmma_bf16 does",
         .does = &kForward,
         .under = &kFp16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half,
         .launch = launch_wgmma_fp16,
         .launch_narrow = half_forward::launch_wgmma},
        {.name = "mma_fp16_gradients",
         .idea = "mma.sync: keys stay for dK and dV, queries stay for dQ, pairs computed for both",
         .does = &kBackward,
         .under = &kFp16,
         .needs = {.arch = 80, .masks = kEveryMask},
         .plan = plan_mma_half_gradients,
         .launch = launch_mma_fp16_gradients,
         .launch_narrow_backward = half_backward::launch_mma},
        {.name = "wgmma_fp16_gradients",
         .idea = "all that wgmma_bf16_gradients does",
         .does = &kBackward,
         .under = &kFp16,
         .needs = kHopperMasked,
         .plan = plan_wgmma_half_gradients,
         .launch = launch_wgmma_fp16_gradients,
         .launch_narrow_backward = half_backward::launch_wgmma,
         .has_turns = true},
    };
    return table;
}

std::vector<Kernel> kernels_of(const Contract& contract, const Operation& operation) {
    std::vector<Kernel> list;
    for (const Kernel& kernel : kernels())
        if (kernel.under == &contract && kernel.does == &operation) list.push_back(kernel);
    return list;
}

const Kernel* find_kernel(const std::string& name, const std::vector<Kernel>& table) {
    for (const Kernel& kernel : table)
        if (name == kernel.name) return &kernel;
    return nullptr;
}

Plan plan_of(const Kernel& kernel, const Problem& problem, const Device& device) {
    Plan plan = planned(kernel, problem, device);
    if (!plan.why_not.empty()) plan.why_not = "kernel " + std::string(kernel.name) + " " + plan.why_not;
    return plan;
}

const Kernel* choose_kernel(const Problem& problem, const Device& device, const Contract& contract,
                            const std::vector<Kernel>& table) {
    const Kernel* best = nullptr;
    for (const Kernel& kernel : table) {
        if (kernel.under != &contract || kernel.does != &whole_of(*problem.operation)) continue;
        const Plan plan = plan_of(kernel, problem, device);
        if (!plan.why_not.empty()) continue;
        if (plan.pays || best == nullptr) best = &kernel;
    }
    return best;
}

} // namespace hw4::gpu
