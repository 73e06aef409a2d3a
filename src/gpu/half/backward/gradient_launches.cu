// The table's launches of half precision's gradients: operands rounded, O and its rows' statistics unless somebody has
// them, the kernel, gradients widened.
#include <algorithm>
#include <string>

#include "src/gpu/half/backward/float_operands.h"
#include "src/gpu/half/backward/kernels.h"
#include "src/gpu/half/forward/float_operands.h"
#include "src/gpu/half/forward/kernels.h"
#include "src/gpu/half/forward/work.h"

namespace hw4::gpu {
namespace {

using half_backward::NumberType;

Plan plan_half_gradients(const Problem& problem, size_t shared_bytes, bool sums) {
    Plan plan;
    const int64_t rows = std::max(problem.queries, problem.keys);
    if (rows > half_forward::kMostRows)
        plan.why_not = "takes up to " + std::to_string(half_forward::kMostRows) + " rows in a head, this case has " +
                       std::to_string(rows);
    plan.shared_bytes = shared_bytes;
    plan.scratch_bytes = half_backward::rounded_bytes(problem, sums);
    return plan;
}

using Forward = void (*)(const half_forward::Args& args, const Device& device, cudaStream_t stream);
using Backward = void (*)(const half_backward::Args& args, const Device& device, cudaStream_t stream);

void launch_on_floats(const Launch& launch, NumberType type, Forward forward, Backward backward, cudaStream_t stream) {
    const half_backward::Args args = half_backward::round_operands(launch, type, stream);
    if (launch.forward_out.at == nullptr) forward(args.forward, launch.device, stream);
    backward(args, launch.device, stream);
    half_backward::widen_gradients(launch, args, stream);
}

} // namespace

Plan plan_mma_half_gradients(const Problem& problem, const Device&) {
    const size_t bytes =
        std::max(half_forward::mma_shared_bytes(problem.dim), half_backward::mma_gradient_bytes(problem.dim));
    return plan_half_gradients(problem, bytes, false);
}
Plan plan_wgmma_half_gradients(const Problem& problem, const Device&) {
    constexpr int64_t kFewRows = 32; // of which most of a tile would be padding
    const size_t bytes =
        std::max({half_forward::wgmma_shared_bytes(problem.dim), half_backward::wgmma_gradient_bytes(problem.dim),
                  half_backward::wgmma_again_bytes(problem.dim)});
    Plan plan = plan_half_gradients(problem, bytes, true);
    plan.pays = problem.queries > kFewRows && problem.keys > kFewRows;
    return plan;
}

void launch_mma_bf16_gradients(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, half_forward::launch_mma, half_backward::launch_mma, stream);
}
void launch_mma_fp16_gradients(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::fp16, half_forward::launch_mma, half_backward::launch_mma, stream);
}
void launch_wgmma_again(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, half_forward::launch_wgmma, half_backward::launch_wgmma_again, stream);
}
void launch_wgmma_bf16_gradients(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, half_forward::launch_wgmma, half_backward::launch_wgmma, stream);
}
void launch_wgmma_fp16_gradients(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::fp16, half_forward::launch_wgmma, half_backward::launch_wgmma, stream);
}

} // namespace hw4::gpu
