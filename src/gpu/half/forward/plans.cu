// What the kernels of half precision need for a problem.
#include <algorithm>
#include <string>

#include "src/gpu/half/forward/kernels.h"
#include "src/gpu/half/forward/work.h"

namespace hw4::gpu {
namespace {

Plan plan_half(const Problem& problem, size_t shared_bytes) {
    Plan plan;
    plan.why_not = half_forward::why_too_long(problem);
    plan.shared_bytes = shared_bytes;
    plan.scratch_bytes = sizeof(*half_forward::Args::counter);
    return plan;
}

} // namespace

namespace half_forward {

std::string why_too_long(const Problem& problem) {
    const int64_t rows = std::max(problem.queries, problem.keys);
    if (rows <= kMostRows) return "";
    return "takes up to " + std::to_string(kMostRows) + " rows in a head, this case has " + std::to_string(rows);
}

} // namespace half_forward

Plan plan_mma_half(const Problem& problem, const Device&) {
    return plan_half(problem, half_forward::mma_shared_bytes(problem.dim));
}
Plan plan_wgmma_half(const Problem& problem, const Device&) {
    return plan_half(problem, half_forward::wgmma_shared_bytes(problem.dim));
}

} // namespace hw4::gpu
