// Owners of CUDA's resources: move-only, freed once.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "src/gpu/device/check.h"
#include "src/run/copies.h"

namespace hw4::gpu {

// A CUDA handle that Release frees.
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
    void operator()(void* p) const noexcept { HW4_CUDA_NOEXCEPT(cudaFree(p)); }
};
struct Unpin {
    void operator()(void* p) const noexcept { HW4_CUDA_NOEXCEPT(cudaHostUnregister(p)); }
};
struct DestroyStream {
    void operator()(cudaStream_t s) const noexcept { HW4_CUDA_NOEXCEPT(cudaStreamDestroy(s)); }
};
struct DestroyEvent {
    void operator()(cudaEvent_t e) const noexcept { HW4_CUDA_NOEXCEPT(cudaEventDestroy(e)); }
};

using Stream = Owner<cudaStream_t, DestroyStream>;
using Event = Owner<cudaEvent_t, DestroyEvent>;
using Pinned = Owner<void*, Unpin>;
using Scratch = Owner<void*, FreeDevice>;

// A stream that does not wait for the default stream, nor the default stream for it.
inline Stream make_stream() {
    cudaStream_t stream;
    HW4_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return Stream(stream);
}

// `flags`: cudaEventBlockingSync and similar flags.
inline Event make_event(unsigned flags = cudaEventDefault) {
    cudaEvent_t event;
    HW4_CUDA(cudaEventCreateWithFlags(&event, flags));
    return Event(event);
}

// Pins memory of another owner, so that the GPU can copy it asynchronously.
inline Pinned pin(void* memory, size_t bytes) {
    HW4_CUDA(cudaHostRegister(memory, bytes, cudaHostRegisterDefault));
    return Pinned(memory);
}

// Device memory without a layout; null for 0 bytes.
inline Scratch make_scratch(size_t bytes) {
    void* memory = nullptr;
    if (bytes > 0) HW4_CUDA(cudaMalloc(&memory, bytes));
    return Scratch(memory);
}

// Rows on the device, a pitch apart, in memory of another owner. For linear copies the pitch is the row's size.
class PitchedRows {
public:
    PitchedRows(void* data, size_t row_bytes, size_t pitch_bytes, Copies copies)
        : data_(static_cast<unsigned char*>(data)), row_bytes_(row_bytes), pitch_bytes_(pitch_bytes), copies_(copies) {}

    void* row(size_t index) const { return data_ + index * pitch_bytes_; }

    void copy_in(const void* host, size_t rows, cudaStream_t stream, size_t first_row = 0) const {
        copy(row(first_row), pitch_bytes_, host, row_bytes_, rows, cudaMemcpyHostToDevice, stream);
    }
    void copy_out(void* host, size_t rows, cudaStream_t stream, size_t first_row = 0) const {
        copy(host, row_bytes_, row(first_row), pitch_bytes_, rows, cudaMemcpyDeviceToHost, stream);
    }

private:
    void copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t rows, cudaMemcpyKind kind,
              cudaStream_t stream) const {
        if (copies_ == Copies::linear)
            HW4_CUDA(cudaMemcpyAsync(to, from, rows * row_bytes_, kind, stream));
        else
            HW4_CUDA(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, row_bytes_, rows, kind, stream));
    }

    unsigned char* data_;
    size_t row_bytes_;
    size_t pitch_bytes_;
    Copies copies_;
};

// ---- Device memory in equal parts, which is kept from case to case and reallocated when one needs more

class Arena {
public:
    int parts() const { return parts_; }
    size_t bytes() const { return bytes_; }
    void* part(int index) const {
        return bytes_ == 0 ? nullptr : static_cast<char*>(memory_.get()) + static_cast<size_t>(index) * part_bytes_;
    }

    // Whether there are already that many parts of that many bytes.
    bool holds(int parts, size_t part_bytes) const { return parts <= parts_ && part_bytes <= part_bytes_; }

    // At least `parts` parts of at least `part_bytes` each. Their content is lost, and no stream may be using them. If
    // there is not enough memory, there are no parts.
    void make(int parts, size_t part_bytes) {
        const size_t aligned = (part_bytes + kAlignment - 1) / kAlignment * kAlignment;
        const size_t needed = static_cast<size_t>(parts) * aligned;
        if (needed > bytes_) {
            clear();
            memory_ = make_scratch(needed);
            bytes_ = needed;
        }
        parts_ = parts;
        part_bytes_ = bytes_ / static_cast<size_t>(parts) / kAlignment * kAlignment;
    }

    void clear() {
        parts_ = 0;
        part_bytes_ = bytes_ = 0;
        const Scratch freed = std::move(memory_);
    }

private:
    static constexpr size_t kAlignment = 512; // of a part: cudaMalloc aligns memory in this way, and rows need it

    Scratch memory_;
    size_t bytes_ = 0;
    int parts_ = 0;
    size_t part_bytes_ = 0;
};

// ---- The driver loads and unpacks a kernel's code when the kernel is first used, which takes milliseconds. They would
// otherwise count as part of the first launch.

struct DestroyGraph {
    void operator()(cudaGraph_t g) const noexcept { HW4_CUDA_NOEXCEPT(cudaGraphDestroy(g)); }
};
using Graph = Owner<cudaGraph_t, DestroyGraph>;

// Loads the code of all kernels that launch(stream) launches. The stream only records them: nothing runs.
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
