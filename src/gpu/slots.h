// How a chunk of a case lies in its slot: rows as the file has them, first the input's, then the output's, then the
// statistics of the output's rows where they are asked for.
#pragma once

#include "src/gpu/device/memory.h"
#include "src/gpu/slot_plan.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

class SlotLayout {
public:
    SlotLayout(const Problem& problem, Copies copies, int64_t batches, bool statistics)
        : copies_(copies), element_(problem.element), row_bytes_(problem.stored_row_bytes()),
          pitch_bytes_(row_pitch(problem, copies)),
          input_rows_(aligned(static_cast<size_t>(batches * problem.batch_input_rows()))),
          output_rows_(aligned(static_cast<size_t>(batches * problem.batch_output_rows()))),
          statistics_bytes_(output_rows_ * bytes_beside_output(statistics)) {}

    size_t bytes() const {
        const size_t all = (input_rows_ + output_rows_) * pitch_bytes_ + statistics_bytes_;
        return (all + kBoundary - 1) / kBoundary * kBoundary;
    }

    // Elements from one row to the next.
    size_t stride() const { return pitch_bytes_ / bytes_of(element_); }

    // In a slot that begins there.
    void* input(void* slot) const { return rows_in(slot).row(0); }
    void* output(void* slot) const { return rows_in(slot).row(input_rows_); }
    // Null where they are not asked for.
    RowStatistics* statistics(void* slot) const {
        if (statistics_bytes_ == 0) return nullptr;
        return static_cast<RowStatistics*>(rows_in(slot).row(input_rows_ + output_rows_));
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

    Copies copies_;
    Element element_;
    size_t row_bytes_;
    size_t pitch_bytes_;
    size_t input_rows_;
    size_t output_rows_;
    size_t statistics_bytes_;
};

} // namespace hw4::gpu
