// What the kernels of half precision need for a problem, and the layout of their scratch memory.
#include <algorithm>
#include <string>

#include "src/gpu/half/kernels.h"

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

// The choice depends only on the sizes of one head: in a larger batch, or on another GPU, a row has the same bytes.
Plan plan_split_half(const Problem& problem, const Device& device) {
    constexpr int64_t kFewQueries = 16; // most of a tile of the other kernels would be padding
    Plan plan = half_forward::plan_split(problem, device);
    plan.pays = problem.by_lengths || problem.queries <= kFewQueries;
    return plan;
}

// ---- Backward

namespace half_backward {
namespace {

// The layout of scratch memory.
struct Parts {
    unsigned* counter;         // forward's
    void* out;                 // O, packed
    RowStatistics* statistics; // of O's rows
    void* of_kernel;           // the last part
    size_t bytes = 0;

    // With or without the sums of dQ, which are the last in the kernel's memory.
    Parts(void* base, const Problem& problem, bool sums) {
        const auto take = [&](int64_t count) {
            constexpr size_t kAlignment = Scratch::kAlignment;
            void* const part = static_cast<char*>(base) + bytes;
            bytes += (static_cast<size_t>(count) + kAlignment - 1) / kAlignment * kAlignment;
            return part;
        };
        const int64_t columns = half_forward::padded_columns(problem.dim);
        const int64_t rows = problem.units() * problem.queries;
        counter = static_cast<unsigned*>(take(sizeof(unsigned)));
        out = take(2 * rows * columns);
        statistics = static_cast<RowStatistics*>(take(rows * static_cast<int64_t>(sizeof(RowStatistics))));
        const Scratch scratch(problem.units(), problem.queries, columns);
        of_kernel = take(sums ? scratch.end : scratch.dq);
    }
};

Plan plan(const Problem& problem, size_t shared_bytes, bool sums) {
    Plan plan;
    plan.why_not = half_forward::why_too_long(problem);
    plan.shared_bytes = shared_bytes;
    plan.scratch_bytes = Parts(nullptr, problem, sums).bytes;
    return plan;
}

} // namespace

Args args_of(const Launch& launch) {
    const Problem& problem = launch.problem;
    const Parts parts(launch.scratch, problem, true);
    Launch of_forward = launch;
    of_forward.problem = problem.of_operation(kForward);
    of_forward.scratch = parts.counter;
    if (launch.forward_out.data != nullptr) {
        of_forward.out[0] = launch.forward_out;
    } else {
        const int64_t columns = half_forward::padded_columns(problem.dim);
        of_forward.out[0] = tensor_at(of_forward.problem, kForward.outputs, 0, parts.out, static_cast<size_t>(columns));
        of_forward.statistics = parts.statistics;
    }
    Args args;
    args.forward = half_forward::args_of(of_forward);
    args.dout = half_forward::operand_of(launch.in[3]);
    args.dq = half_forward::operand_of(launch.out[0]);
    args.dk = half_forward::operand_of(launch.out[1]);
    args.dv = half_forward::operand_of(launch.out[2]);
    args.scale = gradient_scale_for(problem.key_dim(), problem.scale);
    args.scratch = parts.of_kernel;
    return args;
}

} // namespace half_backward

Plan plan_mma_half_gradients(const Problem& problem, const Device&) {
    const size_t bytes =
        std::max(half_forward::mma_shared_bytes(problem.dim), half_backward::mma_gradient_bytes(problem.dim));
    return half_backward::plan(problem, bytes, false);
}

Plan plan_wgmma_half_gradients(const Problem& problem, const Device&) {
    constexpr int64_t kFewRows = 32; // with so few, most of a tile would be padding
    const size_t bytes =
        std::max(half_forward::wgmma_shared_bytes(problem.dim), half_backward::wgmma_gradient_bytes(problem.dim));
    Plan plan = half_backward::plan(problem, bytes, true);
    plan.pays = problem.queries > kFewRows && problem.keys > kFewRows;
    return plan;
}

} // namespace hw4::gpu
