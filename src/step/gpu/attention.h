// Attention of a micro-batch by the GPU kernels of a contract.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <tuple>

#include "src/gpu/kernels.h"
#include "src/step/attention.h"
#include "src/step/gpu/workspace.h"

namespace hw4::step {

class GpuAttention {
public:
    GpuAttention(const gpu::Device& device, const Contract& contract, cudaStream_t stream)
        : device_(device), contract_(contract), stream_(stream) {}

    // Throws Error: bad_data where no kernel takes heads of that width, out_of_memory.
    void compute(Workspace& workspace, const Attention& of);

private:
    struct Choice {
        const gpu::Kernel* kernel;
        size_t scratch_bytes;
        size_t least_bytes;
    };
    // The last choices, since every layer repeats them.
    Choice& choose(const Problem& problem);

    const gpu::Device device_;
    const Contract& contract_;
    cudaStream_t stream_;
    std::map<std::tuple<const Operation*, int64_t, int64_t, int64_t, int64_t>, Choice> known_;
};

} // namespace hw4::step
