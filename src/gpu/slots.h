// The device memory of all slots in one allocation: a matrix of rows of d floats, of which each slot has some for the
// input of its chunk and some for its output.
#pragma once

#include "src/gpu/device/memory.h"
#include "src/gpu/slot_plan.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

class Slots {
public:
    Slots(const Problem& problem, Copies copies, const SlotPlan& plan)
        : plan_(plan), input_rows_(aligned(static_cast<size_t>(plan.batches * problem.batch_input_rows()))),
          output_rows_(aligned(static_cast<size_t>(plan.batches * problem.batch_output_rows()))),
          memory_(static_cast<size_t>(plan.slots) * (input_rows_ + output_rows_), static_cast<size_t>(problem.dim),
                  copies) {}

    int count() const { return plan_.slots; }
    int64_t batches() const { return plan_.batches; }
    size_t bytes() const { return memory_.bytes(); }
    size_t stride() const { return memory_.stride(); }
    const float* input(int slot) const { return memory_.row(input_row(slot)); }
    float* output(int slot) const { return memory_.row(output_row(slot)); }

    void copy_in(int slot, int64_t first_row, int64_t rows, const float* from, cudaStream_t stream) {
        memory_.copy_in(from, static_cast<size_t>(rows), stream, input_row(slot) + static_cast<size_t>(first_row));
    }
    void copy_out(int slot, int64_t first_row, int64_t rows, float* to, cudaStream_t stream) const {
        memory_.copy_out(to, static_cast<size_t>(rows), stream, output_row(slot) + static_cast<size_t>(first_row));
    }

private:
    // Four packed rows of whole floats end at a boundary of 16 bytes, where kernels want matrices to start.
    static size_t aligned(size_t rows) { return (rows + 3) / 4 * 4; }
    size_t input_row(int slot) const { return static_cast<size_t>(slot) * (input_rows_ + output_rows_); }
    size_t output_row(int slot) const { return input_row(slot) + input_rows_; }

    SlotPlan plan_;
    size_t input_rows_; // of a slot
    size_t output_rows_;
    PitchedMatrix memory_;
};

} // namespace hw4::gpu
