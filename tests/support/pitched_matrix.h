// Rows of floats on the GPU, a pitch apart, with memory of their own.
#pragma once

#include "src/gpu/device/memory.h"

namespace hw4::gpu {

// `rows` rows of `columns` floats with memory of their own, a pitch apart that suits the GPU.
class PitchedMatrix {
public:
    PitchedMatrix(size_t rows, size_t columns, Copies copies = Copies::two_d)
        : rows_(rows), pitch_bytes_(columns * sizeof(float)) {
        void* memory = nullptr;
        if (copies == Copies::linear)
            HW4_CUDA(cudaMalloc(&memory, rows * pitch_bytes_));
        else
            HW4_CUDA(cudaMallocPitch(&memory, &pitch_bytes_, columns * sizeof(float), rows));
        memory_ = Scratch(memory);
        view_ = PitchedRows(memory, columns * sizeof(float), pitch_bytes_, copies);
    }

    float* data() const { return row(0); }
    float* row(size_t index) const { return static_cast<float*>(view_.row(index)); }
    size_t stride() const { return pitch_bytes_ / sizeof(float); } // floats from one row to the next
    size_t bytes() const { return rows_ * pitch_bytes_; }

    void copy_in(const float* host, size_t rows, cudaStream_t stream, size_t first_row = 0) {
        view_.copy_in(host, rows, stream, first_row);
    }
    void copy_out(float* host, size_t rows, cudaStream_t stream, size_t first_row = 0) const {
        view_.copy_out(host, rows, stream, first_row);
    }

private:
    size_t rows_;
    size_t pitch_bytes_;
    Scratch memory_;
    PitchedRows view_{nullptr, 0, 0, Copies::linear};
};

} // namespace hw4::gpu
