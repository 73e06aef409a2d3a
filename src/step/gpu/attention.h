// Attention of a micro-batch by the GPU kernels of a contract.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>

#include "src/base/error.h"
#include "src/gpu/kernels.h"
#include "src/step/attention.h"
#include "src/step/gpu/workspace.h"

namespace hw4::step {

class GpuAttention {
public:
    GpuAttention(const gpu::Device& device, const Contract& contract, cudaStream_t stream)
        : device_(device), contract_(contract), stream_(stream) {}

    // Throws Error: bad_data if no kernel takes heads of this width, out_of_memory.
    void compute(Workspace& workspace, const Attention& of) {
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

private:
    // With the least scratch memory backward computes one head at a time, in launches that leave most of a GPU idle.
    static constexpr size_t kMostScratch = size_t{1} << 30;

    struct Choice {
        const gpu::Kernel* kernel;
        size_t scratch_bytes;
        size_t least_bytes;
    };

    // Choices are kept: every layer repeats them.
    Choice& choose(const Problem& problem) {
        const std::tuple key(problem.operation, problem.batches, problem.heads, problem.queries, problem.dim);
        const auto found = known_.find(key);
        if (found != known_.end()) return found->second;
        const gpu::Kernel* const kernel = gpu::choose_kernel(problem, device_, contract_);
        if (kernel == nullptr)
            throw Error(ExitCode::bad_data, "no GPU kernel of " + std::string(contract_.name) +
                                                " takes heads of width " + std::to_string(problem.dim) +
                                                ", need at most " + std::to_string(gpu::kMostColumns));
        const gpu::Plan plan = gpu::plan_of(*kernel, problem, device_);
        const size_t bytes = std::max(plan.scratch_bytes, std::min(plan.most_scratch, kMostScratch));
        return known_.emplace(key, Choice{kernel, bytes, plan.scratch_bytes}).first->second;
    }

    const gpu::Device device_;
    const Contract& contract_;
    cudaStream_t stream_;
    std::map<std::tuple<const Operation*, int64_t, int64_t, int64_t, int64_t>, Choice> known_;
};

} // namespace hw4::step
