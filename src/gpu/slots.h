// How a chunk of a case lies in its slot: rows as the file has them, some for its input and then some for its output;
// behind them the statistics of the output's rows, where they are asked for; and behind those the same rows as floats,
// where the file's elements have 16 bits and kernels do not take them. Both forms are packed then.
#pragma once

#include "src/gpu/device/memory.h"
#include "src/gpu/slot_plan.h"
#include "src/gpu/stored_rows.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

class SlotLayout {
public:
    SlotLayout(const Problem& problem, Copies copies, int64_t batches, bool statistics, bool widened)
        : copies_(copies), element_(problem.element), dim_(problem.dim), row_bytes_(problem.stored_row_bytes()),
          pitch_bytes_(row_pitch(problem, copies, widened)),
          input_rows_(aligned(static_cast<size_t>(batches * problem.batch_input_rows()))),
          output_rows_(aligned(static_cast<size_t>(batches * problem.batch_output_rows()))),
          statistics_bytes_(output_rows_ * bytes_beside_output(statistics)),
          float_row_(widened ? static_cast<size_t>(problem.dim) : 0) {}

    size_t bytes() const { return floats_at() + (input_rows_ + output_rows_) * float_row_ * sizeof(float); }
    bool is_widened() const { return float_row_ > 0; }
    bool is_narrow() const { return element_ != Element::float32; }

    // Elements from one row to the next.
    size_t stride() const { return pitch_bytes_ / bytes_of(element_); }

    // In a slot that begins there.
    void* input(void* slot) const { return rows_in(slot).row(0); }
    void* output(void* slot) const { return rows_in(slot).row(input_rows_); }
    // Null where nobody asks for them.
    RowStatistics* statistics(void* slot) const {
        if (statistics_bytes_ == 0) return nullptr;
        return static_cast<RowStatistics*>(rows_in(slot).row(input_rows_ + output_rows_));
    }
    // Where rows are widened: their floats; and both forms of the first ones, or of some.
    float* float_input(void* slot) const { return both_forms(slot, 0, 0).floats; }
    float* float_output(void* slot) const { return widened_output(slot, 0, 0).floats; }
    StoredRows widened_input(void* slot, int64_t rows) const { return both_forms(slot, 0, rows); }
    StoredRows widened_output(void* slot, int64_t first, int64_t rows) const {
        return both_forms(slot, static_cast<int64_t>(input_rows_) + first, rows);
    }

    void copy_in(void* slot, int64_t first_row, int64_t rows, const void* from, cudaStream_t stream) const {
        rows_in(slot).copy_in(from, static_cast<size_t>(rows), stream, static_cast<size_t>(first_row));
    }
    void copy_out(void* slot, int64_t first_row, int64_t rows, void* to, cudaStream_t stream) const {
        rows_in(slot).copy_out(to, static_cast<size_t>(rows), stream, input_rows_ + static_cast<size_t>(first_row));
    }
    void copy_statistics_out(void* slot, int64_t first_row, int64_t rows, RowStatistics* to,
                             cudaStream_t stream) const {
        HW4_CUDA(cudaMemcpyAsync(to, statistics(slot) + first_row, static_cast<size_t>(rows) * sizeof(RowStatistics),
                                 cudaMemcpyDeviceToHost, stream));
    }

private:
    static constexpr size_t kBoundary = 16; // bytes, where kernels want matrices to start

    // So many packed rows end at a boundary.
    size_t aligned(size_t rows) const {
        const size_t together = kBoundary / bytes_of(element_);
        return (rows + together - 1) / together * together;
    }

    PitchedRows rows_in(void* slot) const { return PitchedRows(slot, row_bytes_, pitch_bytes_, copies_); }

    size_t floats_at() const {
        const size_t before = (input_rows_ + output_rows_) * pitch_bytes_ + statistics_bytes_;
        return (before + kBoundary - 1) / kBoundary * kBoundary;
    }
    StoredRows both_forms(void* slot, int64_t first, int64_t rows) const {
        float* const floats = reinterpret_cast<float*>(static_cast<unsigned char*>(slot) + floats_at());
        return {element_, rows_in(slot).row(static_cast<size_t>(first)), pitch_bytes_, floats + first * dim_, rows,
                dim_};
    }

    Copies copies_;
    Element element_;
    int64_t dim_;
    size_t row_bytes_;
    size_t pitch_bytes_;
    size_t input_rows_;
    size_t output_rows_;
    size_t statistics_bytes_;
    size_t float_row_; // floats from one row to the next; 0: there are none
};

} // namespace hw4::gpu
