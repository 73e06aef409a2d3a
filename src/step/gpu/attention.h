// Attention of a micro-batch by the GPU kernels of contract f32, on q, k and v where they stand in rows of qkv.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <tuple>

#include "src/gpu/kernels.h"
#include "src/step/gpu/workspace.h"
#include "src/step/machine.h"

namespace hw4::step {

class GpuAttention {
public:
    GpuAttention(const gpu::Device& device, cudaStream_t stream) : device_(device), stream_(stream) {}

    // Both throw Error: bad_data where no kernel takes heads of that width, out_of_memory.
    void attend(Workspace& workspace, const float* qkv, float* o, RowStatistics* statistics, int64_t sequences,
                int64_t context, const Model& model);
    void attend_back(Workspace& workspace, const float* qkv, const float* o, const RowStatistics* statistics,
                     const float* d_o, float* d_qkv, int64_t sequences, int64_t context, const Model& model);

private:
    struct Choice {
        const gpu::Kernel* kernel;
        size_t scratch_bytes;
        size_t least_bytes;
    };
    // The last choices, since every layer repeats them.
    Choice& choose(const Problem& problem);
    void run(Workspace& workspace, gpu::Launch& launch);

    const gpu::Device device_;
    cudaStream_t stream_;
    std::map<std::tuple<const Operation*, int64_t, int64_t, int64_t, int64_t>, Choice> known_;
};

} // namespace hw4::step
