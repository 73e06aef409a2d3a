// A case with scattered operands: each has its own memory, and rows, heads and batches at strides of its own, with
// poison between them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/support/attend.h"

namespace hw4::gpu {

class ScatteredOperand {
public:
    // `gap`: floats between two rows; a multiple of 4, as Launch requires.
    ScatteredOperand(const Problem& problem, const Operand& operand, size_t gap)
        : heads_(problem.heads_of(operand)), rows_(problem.head_rows(operand)), dim_(static_cast<size_t>(problem.dim)) {
        distances_.row = dim_ + gap;
        distances_.head = static_cast<size_t>(rows_) * distances_.row + 2 * gap;
        distances_.batch = static_cast<size_t>(heads_) * distances_.head + 3 * gap;
        host_.assign(static_cast<size_t>(problem.batches) * distances_.batch, float_of(0xffffffffu));
        device_ = make_scratch(bytes());
    }

    // Copies from or to packed rows.
    void fill(int64_t batch, const float* from) {
        each_row(batch, [&](float* row, size_t at) { std::copy_n(from + at, dim_, row); });
    }
    void read(int64_t batch, float* to) {
        each_row(batch, [&](float* row, size_t at) {
            std::copy_n(row, dim_, to + at);
            std::fill_n(row, dim_, float_of(0xffffffffu));
        });
    }
    // Call after everything was read.
    bool is_all_poison() const {
        return std::all_of(host_.begin(), host_.end(), [](float x) { return bits_of(x) == 0xffffffffu; });
    }

    Tensor on_device() const {
        return {device_.get(), Element::float32, static_cast<int64_t>(distances_.batch),
                static_cast<int64_t>(distances_.head), static_cast<int64_t>(distances_.row)};
    }
    void copy_in(cudaStream_t stream) {
        HW4_CUDA(cudaMemcpyAsync(device_.get(), host_.data(), bytes(), cudaMemcpyHostToDevice, stream));
    }
    void copy_out(cudaStream_t stream) {
        HW4_CUDA(cudaMemcpyAsync(host_.data(), device_.get(), bytes(), cudaMemcpyDeviceToHost, stream));
    }
    size_t floats_of_batch() const { return static_cast<size_t>(heads_ * rows_) * dim_; }

private:
    size_t bytes() const { return host_.size() * sizeof(float); }

    template <class Visit>
    void each_row(int64_t batch, const Visit& visit) {
        Matrix<float> matrix = distances_;
        matrix.at = host_.data();
        for (int64_t head = 0; head < heads_; ++head)
            for (int64_t row = 0; row < rows_; ++row)
                visit(matrix.of(batch, head) + static_cast<size_t>(row) * matrix.row,
                      static_cast<size_t>(head * rows_ + row) * dim_);
    }

    int64_t heads_;
    int64_t rows_;
    size_t dim_;
    Matrix<float> distances_;
    std::vector<float> host_;
    Scratch device_;
};

// The kernel's output in packed rows; empty where it wrote outside them.
inline std::vector<float> attend_scattered(const Kernel& kernel, const AttentionCase& test) {
    const Problem& problem = test.problem;
    const Operation& operation = *problem.operation;
    const Device device = current_device();
    const size_t scratch_bytes = plan_of(kernel, problem, device).scratch_bytes;
    const Stream stream = make_stream();
    const Scratch scratch = make_scratch(scratch_bytes);
    poison(scratch.get(), scratch_bytes, stream.get());
    Launch launch;
    launch.problem = problem;
    launch.device = device;
    launch.scratch = scratch.get();

    size_t gap = 4;
    std::vector<ScatteredOperand> in;
    const float* from = test.qkv.data();
    for (const Operand& operand : operation.inputs) in.emplace_back(problem, operand, std::exchange(gap, 2 * gap));
    for (int64_t batch = 0; batch < problem.batches; ++batch)
        for (ScatteredOperand& operand : in) {
            operand.fill(batch, from);
            from += operand.floats_of_batch();
        }
    for (size_t i = 0; i < in.size(); ++i) {
        in[i].copy_in(stream.get());
        launch.in[i] = in[i].on_device();
    }
    std::vector<ScatteredOperand> out;
    for (const Operand& operand : operation.outputs) out.emplace_back(problem, operand, std::exchange(gap, 2 * gap));
    for (size_t i = 0; i < out.size(); ++i) {
        out[i].copy_in(stream.get());
        launch.out[i] = out[i].on_device();
    }
    kernel.launch(launch, stream.get());
    for (ScatteredOperand& operand : out) operand.copy_out(stream.get());
    HW4_CUDA(cudaStreamSynchronize(stream.get()));

    std::vector<float> result(problem.floats_in(problem.output_rows()));
    float* to = result.data();
    for (int64_t batch = 0; batch < problem.batches; ++batch)
        for (ScatteredOperand& operand : out) {
            operand.read(batch, to);
            to += operand.floats_of_batch();
        }
    const auto is_clean = [](const ScatteredOperand& operand) { return operand.is_all_poison(); };
    return std::all_of(out.begin(), out.end(), is_clean) ? result : std::vector<float>();
}

} // namespace hw4::gpu
