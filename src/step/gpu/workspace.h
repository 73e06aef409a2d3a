// Device memory that an operation needs while it runs. The next operation reuses it; one that needs more makes it grow.
#pragma once

#include "src/gpu/device/memory.h"

namespace hw4::step {

class Workspace {
public:
    explicit Workspace(cudaStream_t stream) : stream_(stream) {}

    size_t bytes() const { return memory_.bytes(); }

    // Returns memory of undefined content, valid until the next call. Throws Error (out_of_memory).
    template <class T>
    T* of(size_t count) {
        if (!memory_.holds(1, count * sizeof(T))) {
            HW4_CUDA(cudaStreamSynchronize(stream_));
            memory_.make(1, count * sizeof(T));
        }
        return static_cast<T*>(memory_.part(0));
    }

private:
    cudaStream_t stream_;
    gpu::Arena memory_;
};

} // namespace hw4::step
