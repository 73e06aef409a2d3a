// The code of a kernel is brought to the card, and unpacked, when the kernel is first used: milliseconds, which would
// otherwise count as the first launch's.
#pragma once

#include "src/gpu/device/memory.h"

namespace hw4::gpu {

struct DestroyGraph {
    void operator()(cudaGraph_t g) const noexcept { HW4_CUDA_NOEXCEPT(cudaGraphDestroy(g)); }
};
using Graph = Owner<cudaGraph_t, DestroyGraph>;

// Of all kernels that launch(stream) launches. The stream only records them: nothing is computed.
template <class LaunchIn>
void load_code_of(const LaunchIn& launch) {
    const Stream recording = make_stream();
    HW4_CUDA(cudaStreamBeginCapture(recording.get(), cudaStreamCaptureModeRelaxed));
    launch(recording.get());
    cudaGraph_t recorded = nullptr;
    HW4_CUDA(cudaStreamEndCapture(recording.get(), &recorded));
    const Graph dropped(recorded);
}

} // namespace hw4::gpu
