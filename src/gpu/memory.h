// Owners of CUDA's resources: move-only, freed once.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "check.h"

namespace hw4::gpu {

// A handle of CUDA's that Release gives back.
template <class Handle, class Release>
class Owner {
public:
    Owner() = default;
    explicit Owner(Handle handle) : handle_(handle) {}
    Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
    Owner& operator=(Owner&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Owner() {
        if (handle_) Release()(handle_);
    }
    Handle get() const { return handle_; }

private:
    Handle handle_{};
};

struct FreeDevice {
    void operator()(float* p) const noexcept { HW4_CUDA_NOEXCEPT(cudaFree(p)); }
};
struct FreePinned {
    void operator()(float* p) const noexcept { HW4_CUDA_NOEXCEPT(cudaFreeHost(p)); }
};
struct DestroyStream {
    void operator()(cudaStream_t s) const noexcept { HW4_CUDA_NOEXCEPT(cudaStreamDestroy(s)); }
};
struct DestroyEvent {
    void operator()(cudaEvent_t e) const noexcept { HW4_CUDA_NOEXCEPT(cudaEventDestroy(e)); }
};

using Stream = Owner<cudaStream_t, DestroyStream>;
using Event = Owner<cudaEvent_t, DestroyEvent>;
using PinnedBuffer = Owner<float*, FreePinned>;

// A stream that does not wait for the default stream, nor the default stream for it.
inline Stream make_stream() {
    cudaStream_t stream;
    HW4_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return Stream(stream);
}

inline Event make_event() {
    cudaEvent_t event;
    HW4_CUDA(cudaEventCreate(&event));
    return Event(event);
}

inline PinnedBuffer make_pinned(size_t floats) {
    void* memory = nullptr;
    HW4_CUDA(cudaMallocHost(&memory, floats * sizeof(float)));
    return PinnedBuffer(static_cast<float*>(memory));
}

// `rows` rows of `columns` floats on the device, each row starting at a boundary that suits the card.
class PitchedMatrix {
public:
    PitchedMatrix(size_t rows, size_t columns) : columns_(columns) {
        void* memory = nullptr;
        HW4_CUDA(cudaMallocPitch(&memory, &pitch_bytes_, columns * sizeof(float), rows));
        memory_ = Owner<float*, FreeDevice>(static_cast<float*>(memory));
    }

    float* data() const { return memory_.get(); }
    size_t stride() const { return pitch_bytes_ / sizeof(float); } // floats from one row to the next

    void copy_in(const float* host, size_t rows, cudaStream_t stream) {
        HW4_CUDA(cudaMemcpy2DAsync(data(), pitch_bytes_, host, row_bytes(), row_bytes(), rows, cudaMemcpyHostToDevice,
                                   stream));
    }
    void copy_out(float* host, size_t rows, cudaStream_t stream) const {
        HW4_CUDA(cudaMemcpy2DAsync(host, row_bytes(), data(), pitch_bytes_, row_bytes(), rows, cudaMemcpyDeviceToHost,
                                   stream));
    }

private:
    size_t row_bytes() const { return columns_ * sizeof(float); }

    Owner<float*, FreeDevice> memory_;
    size_t columns_;
    size_t pitch_bytes_ = 0;
};

} // namespace hw4::gpu
