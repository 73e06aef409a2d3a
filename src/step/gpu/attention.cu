#include "src/step/gpu/attention.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "src/base/error.h"

namespace hw4::step {
namespace {

// With the least that backward needs it computes one head at a time, in launches that leave most of a GPU idle.
constexpr size_t kMostScratch = size_t{1} << 30;

} // namespace

GpuAttention::Choice& GpuAttention::choose(const Problem& problem) {
    const std::tuple key(problem.operation, problem.batches, problem.heads, problem.queries, problem.dim);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    const gpu::Kernel* const kernel = gpu::choose_kernel(problem, device_, contract_);
    if (kernel == nullptr)
        throw Error(ExitCode::bad_data, "no GPU kernel of " + std::string(contract_.name) + " takes heads of width " +
                                            std::to_string(problem.dim) + ", need at most " +
                                            std::to_string(gpu::kMostColumns));
    const gpu::Plan plan = gpu::plan_of(*kernel, problem, device_);
    const size_t bytes = std::max(plan.scratch_bytes, std::min(plan.most_scratch, kMostScratch));
    return known_.emplace(key, Choice{kernel, bytes, plan.scratch_bytes}).first->second;
}

void GpuAttention::compute(Workspace& workspace, const Attention& of) {
    Choice& choice = choose(of.problem);
    gpu::Launch launch;
    launch.problem = of.problem;
    launch.device = device_;
    std::copy(std::begin(of.in), std::end(of.in), launch.in);
    std::copy(std::begin(of.out), std::end(of.out), launch.out);
    launch.forward_out = of.forward_out;
    launch.statistics = of.statistics;
    try {
        launch.scratch = workspace.of<unsigned char>(choice.scratch_bytes);
    } catch (const Error& error) {
        if (error.code() != ExitCode::out_of_memory || choice.scratch_bytes == choice.least_bytes) throw;
        choice.scratch_bytes = choice.least_bytes; // slower, with the same bytes
        launch.scratch = workspace.of<unsigned char>(choice.scratch_bytes);
    }
    launch.scratch_bytes = choice.scratch_bytes;
    choice.kernel->launch(launch, stream_);
}

} // namespace hw4::step
