// Copies between the card and pageable memory of the host, by way of two buffers, pinned where the system lets them
// be: all processors fill or empty one while the card copies the other. The driver does the same on one thread. Numbers
// are floats on the host and in the bits of their type on the card.
#pragma once

#include <algorithm>

#include "src/base/error.h"
#include "src/base/parallel.h"
#include "src/base/untouched_vector.h"
#include "src/bench/workbench.h"
#include "src/gpu/device/memory.h"

namespace hw4::bench::gpu_side {

// Numbers on the card, in rows that may be further apart than they are long.
struct CardRows {
    CardRows(Element type, void* memory, size_t numbers) // one after the other
        : CardRows(type, memory, numbers, 1, bytes_of(type)) {}
    CardRows(Element type, void* memory, size_t row_count, size_t row_columns, size_t pitch)
        : element(type), rows(row_count), columns(row_columns), row_bytes(columns * bytes_of(type)),
          on_card(memory, row_bytes, pitch, pitch == row_bytes ? Copies::linear : Copies::two_d) {}

    Element element;
    size_t rows;
    size_t columns;
    size_t row_bytes; // without what is between them
    gpu::PitchedRows on_card;
};

class StagedCopies {
public:
    static constexpr size_t kBufferBytes = size_t{16} << 20;

    using Pin = gpu::Pinned (*)(void* memory, size_t bytes);

    explicit StagedCopies(Pin pin = gpu::pin)
        : memory_(2 * kBufferBytes), pinned_(pinned_or_not(pin, memory_)), stream_(gpu::make_stream()) {}

    // Returns when all is there.
    void put(const float* from, const CardRows& to) {
        const size_t most = rows_in_buffer(to);
        for (size_t first = 0, turn = 0; first < to.rows; first += most, ++turn) {
            const size_t rows = std::min(most, to.rows - first);
            const float* const values = from + first * to.columns;
            HW4_CUDA(cudaEventSynchronize(copied(turn))); // what was in the buffer before
            in_pieces(rows * to.columns, kPieceNumbers, [&](size_t begin, size_t count) {
                narrow(to.element, values + begin, count, buffer(turn) + begin * bytes_of(to.element));
            });
            to.on_card.copy_in(buffer(turn), rows, stream_.get(), first);
            HW4_CUDA(cudaEventRecord(copied(turn), stream_.get()));
        }
        HW4_CUDA(cudaStreamSynchronize(stream_.get()));
    }

    // What is on the card must be done.
    void get(const CardRows& from, float* to) {
        const size_t most = rows_in_buffer(from);
        const size_t turns = (from.rows + most - 1) / most;
        const auto rows_of = [&](size_t turn) { return std::min(most, from.rows - turn * most); };
        const auto begin_copy = [&](size_t turn) {
            from.on_card.copy_out(buffer(turn), rows_of(turn), stream_.get(), turn * most);
            HW4_CUDA(cudaEventRecord(copied(turn), stream_.get()));
        };
        if (turns > 0) begin_copy(0);
        for (size_t turn = 0; turn < turns; ++turn) {
            if (turn + 1 < turns) begin_copy(turn + 1);
            float* const values = to + turn * most * from.columns;
            HW4_CUDA(cudaEventSynchronize(copied(turn)));
            in_pieces(rows_of(turn) * from.columns, kPieceNumbers, [&](size_t begin, size_t count) {
                widen(from.element, buffer(turn) + begin * bytes_of(from.element), count, values + begin);
            });
        }
    }

private:
    // Copies take longer from memory that is not pinned; they are the same.
    static gpu::Pinned pinned_or_not(Pin pin, UntouchedVector<unsigned char>& memory) {
        try {
            return pin(memory.data(), memory.size());
        } catch (const Error&) {
            return {};
        }
    }

    static size_t rows_in_buffer(const CardRows& rows) {
        if (rows.row_bytes > kBufferBytes) throw Unsupported("rows of more than 16 MiB"); // which no kernel takes
        return kBufferBytes / rows.row_bytes;
    }
    unsigned char* buffer(size_t turn) { return memory_.data() + turn % 2 * kBufferBytes; }
    cudaEvent_t copied(size_t turn) const { return copied_[turn % 2].get(); }

    UntouchedVector<unsigned char> memory_; // before what pins it
    gpu::Pinned pinned_;
    gpu::Stream stream_;
    gpu::Event copied_[2] = {gpu::make_event(), gpu::make_event()};
};

} // namespace hw4::bench::gpu_side
