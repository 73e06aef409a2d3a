// The table's launches of half precision: operands rounded, the kernel on them, O widened.
#include "src/gpu/half/forward/float_operands.h"
#include "src/gpu/half/forward/kernels.h"
#include "src/gpu/half/forward/work.h"

namespace hw4::gpu {
namespace {

using namespace half_forward;

Plan plan_half(const Problem& problem, size_t shared_bytes) {
    Plan plan;
    const int64_t rows = std::max(problem.queries, problem.keys);
    if (rows > kMostRows)
        plan.why_not =
            "takes up to " + std::to_string(kMostRows) + " rows in a head, this case has " + std::to_string(rows);
    plan.shared_bytes = shared_bytes;
    plan.scratch_bytes = rounded_bytes(problem);
    return plan;
}

using LaunchOnNumbers = void (*)(const Args& args, const Device& device, cudaStream_t stream);

void launch_on_floats(const Launch& launch, NumberType type, LaunchOnNumbers kernel, cudaStream_t stream) {
    const Args args = round_operands(launch, type, stream);
    kernel(args, launch.device, stream);
    widen_output(launch, args, stream);
}

} // namespace

Plan plan_mma_half(const Problem& problem, const Device&) { return plan_half(problem, mma_shared_bytes(problem.dim)); }
Plan plan_wgmma_half(const Problem& problem, const Device&) {
    return plan_half(problem, wgmma_shared_bytes(problem.dim));
}

void launch_mma_bf16(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, launch_mma, stream);
}
void launch_mma_fp16(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::fp16, launch_mma, stream);
}
void launch_wgmma_stage(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, half_forward::launch_wgmma_stage, stream);
}
void launch_wgmma_ring(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, half_forward::launch_wgmma_ring, stream);
}
void launch_wgmma_ahead(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, half_forward::launch_wgmma_ahead, stream);
}
void launch_wgmma_turns(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, half_forward::launch_wgmma_turns, stream);
}
void launch_wgmma_bf16(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::bf16, launch_wgmma, stream);
}
void launch_wgmma_fp16(const Launch& launch, cudaStream_t stream) {
    launch_on_floats(launch, NumberType::fp16, launch_wgmma, stream);
}

} // namespace hw4::gpu
