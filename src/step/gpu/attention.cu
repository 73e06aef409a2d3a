#include "src/step/gpu/attention.h"

#include <algorithm>
#include <string>

#include "src/base/error.h"

namespace hw4::step {
namespace {

// With the least that backward needs it computes one head at a time, in launches that leave most of a GPU idle.
constexpr size_t kMostScratch = size_t{1} << 30;

Problem problem_of(const Operation& operation, int64_t sequences, int64_t context, const Model& model) {
    Problem problem(sequences, context, model.head_width());
    problem.heads = problem.kv_heads = model.heads;
    problem.mask = Mask::causal;
    problem.operation = &operation;
    return problem;
}

// Matrix `index` of so many side by side in rows of whole tokens.
Tensor matrix_of(const float* rows, int64_t index, int64_t matrices, int64_t context, const Model& model) {
    const int64_t row = matrices * model.width;
    auto* const first = const_cast<float*>(rows) + index * model.width; // NOLINT: inputs are not written
    return {first, Element::float32, context * row, model.head_width(), row};
}

} // namespace

GpuAttention::Choice& GpuAttention::choose(const Problem& problem) {
    const std::tuple key(problem.operation, problem.batches, problem.heads, problem.queries, problem.dim);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    const gpu::Kernel* const kernel = gpu::choose_kernel(problem, device_, kF32);
    if (kernel == nullptr)
        throw Error(ExitCode::bad_data, "no GPU kernel of f32 takes heads of width " + std::to_string(problem.dim) +
                                            ", need at most " + std::to_string(gpu::kMostColumns));
    const gpu::Plan plan = gpu::plan_of(*kernel, problem, device_);
    const size_t bytes = std::max(plan.scratch_bytes, std::min(plan.most_scratch, kMostScratch));
    return known_.emplace(key, Choice{kernel, bytes, plan.scratch_bytes}).first->second;
}

void GpuAttention::run(Workspace& workspace, gpu::Launch& launch) {
    launch.device = device_;
    Choice& choice = choose(launch.problem);
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

void GpuAttention::attend(Workspace& workspace, const float* qkv, float* o, RowStatistics* statistics,
                          int64_t sequences, int64_t context, const Model& model) {
    gpu::Launch launch;
    launch.problem = problem_of(kForward, sequences, context, model);
    for (int64_t i = 0; i < 3; ++i) launch.in[i] = matrix_of(qkv, i, 3, context, model);
    launch.out[0] = matrix_of(o, 0, 1, context, model);
    launch.statistics = statistics;
    run(workspace, launch);
}

void GpuAttention::attend_back(Workspace& workspace, const float* qkv, const float* o, const RowStatistics* statistics,
                               const float* d_o, float* d_qkv, int64_t sequences, int64_t context, const Model& model) {
    gpu::Launch launch;
    launch.problem = problem_of(kBackward, sequences, context, model);
    for (int64_t i = 0; i < 3; ++i) {
        launch.in[i] = matrix_of(qkv, i, 3, context, model);
        launch.out[i] = matrix_of(d_qkv, i, 3, context, model);
    }
    launch.in[3] = matrix_of(d_o, 0, 1, context, model);
    launch.forward_out = matrix_of(o, 0, 1, context, model);
    launch.statistics = const_cast<RowStatistics*>(statistics); // NOLINT: backward reads them
    run(workspace, launch);
}

} // namespace hw4::step
