// Divides the input into pieces and the output into parts, and sets the number of reader and writer threads. The plan
// depends only on the problem, so that reading starts before the engine exists.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "src/problem/problem.h"

namespace hw4 {

struct StagingLimits {
    int readers = 8;
    int writers = 4;
    size_t piece_bytes = size_t{2} << 20; // the size of a huge page
    size_t ring_bytes = size_t{32} << 20;
};

struct StagingPlan {
    int readers;
    int writers;
    int64_t piece_rows; // input rows per buffer of the ring
    int64_t part_rows;  // output rows per writer's buffer
    int ring_buffers;
    size_t piece_bytes; // per buffer
    size_t part_bytes;

    size_t bytes() const {
        return static_cast<size_t>(ring_buffers) * piece_bytes + static_cast<size_t>(writers) * part_bytes;
    }
};

constexpr size_t kPageBytes = 4096;
constexpr size_t kLeastPieceBytes = size_t{256} << 10; // below, calls cost more than bytes

// The rows in each of `shares` equal buffers, within the limits; at least one row, however long.
inline int64_t rows_of_piece(size_t row_bytes, int64_t rows, int64_t shares, size_t most_bytes) {
    const auto of_bytes = [&](size_t bytes) { return static_cast<int64_t>(bytes / row_bytes); };
    const int64_t share = (rows + shares - 1) / shares;
    const int64_t least = of_bytes(std::min(kLeastPieceBytes, most_bytes));
    return std::clamp<int64_t>(std::min(std::max(share, least), of_bytes(most_bytes)), 1, rows);
}

// A pipe has one reader or one writer. `beside_output`: additional bytes per output row.
inline StagingPlan plan_staging(const Problem& problem, bool many_readers, bool many_writers,
                                const StagingLimits& limits, size_t beside_output = 0) {
    const auto count = [](int64_t rows, int64_t of) { return (rows + of - 1) / of; };
    const auto page_bytes = [](int64_t rows, size_t row_bytes) {
        const size_t bytes = static_cast<size_t>(rows) * row_bytes;
        return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    };
    constexpr int64_t kShares = 2; // pieces per thread, at least
    StagingPlan plan{};
    const size_t in_bytes = problem.stored_row_bytes();
    const size_t out_bytes = problem.stored_row_bytes() + beside_output;
    plan.piece_rows = rows_of_piece(in_bytes, problem.input_rows(), kShares * limits.readers, limits.piece_bytes);
    plan.part_rows = rows_of_piece(out_bytes, problem.output_rows(), kShares * limits.writers, limits.piece_bytes);
    plan.piece_bytes = page_bytes(plan.piece_rows, in_bytes);
    plan.part_bytes = page_bytes(plan.part_rows, out_bytes);
    const int64_t pieces = count(problem.input_rows(), plan.piece_rows);
    const int64_t parts = count(problem.output_rows(), plan.part_rows);
    const auto fitting = static_cast<int64_t>(limits.ring_bytes / plan.piece_bytes);
    plan.ring_buffers = static_cast<int>(std::min(pieces, std::max<int64_t>(fitting, 2)));
    plan.readers = many_readers ? std::min(limits.readers, plan.ring_buffers) : 1;
    plan.writers = many_writers ? static_cast<int>(std::min<int64_t>(limits.writers, parts)) : 1;
    return plan;
}

// Buffers and threads for any number of cases, which are not yet known.
inline StagingPlan plan_for_any(const StagingLimits& limits) {
    StagingPlan plan{};
    plan.readers = limits.readers;
    plan.writers = limits.writers;
    plan.piece_bytes = plan.part_bytes = limits.piece_bytes;
    plan.ring_buffers = static_cast<int>(std::max<size_t>(limits.ring_bytes / limits.piece_bytes, 2));
    return plan;
}

// A mapping that is aligned to huge pages.
class MappedMemory {
public:
    explicit MappedMemory(size_t bytes)
        : bytes_(bytes), mapped_bytes_(bytes + kHugePage), mapped_(map(mapped_bytes_)),
          start_(first_huge_page(mapped_)) {
        (void)::madvise(start_, bytes, MADV_HUGEPAGE); // optional: small pages work too, only slower
    }
    ~MappedMemory() { ::munmap(mapped_, mapped_bytes_); }
    MappedMemory(const MappedMemory&) = delete;
    MappedMemory& operator=(const MappedMemory&) = delete;

    unsigned char* data() const { return start_; }
    size_t bytes() const { return bytes_; }

private:
    static constexpr size_t kHugePage = size_t{2} << 20;

    static void* map(size_t bytes) {
        void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        return memory;
    }
    static unsigned char* first_huge_page(void* memory) {
        const auto address = reinterpret_cast<uintptr_t>(memory);
        return static_cast<unsigned char*>(memory) + (kHugePage - address % kHugePage) % kHugePage;
    }

    size_t bytes_;
    size_t mapped_bytes_;
    void* mapped_;
    unsigned char* start_;
};

// The memory of all staging buffers: one mapping, of huge pages where the system has them. Fewer pages are faster to
// fault in and, for the GPU, to pin.
class StagingMemory {
public:
    explicit StagingMemory(const StagingPlan& plan)
        : plan_(plan), memory_(plan.bytes()), larger_(static_cast<size_t>(plan.ring_buffers + plan.writers)) {}

    void* data() const { return memory_.data(); }
    size_t bytes() const { return memory_.bytes(); }

    // The buffer for a reader's piece, of at least `bytes` bytes. Only the thread that has the buffer calls this.
    unsigned char* ring_buffer(int index, size_t bytes) {
        if (bytes > plan_.piece_bytes) return larger(index, bytes);
        return memory_.data() + static_cast<size_t>(index) * plan_.piece_bytes;
    }
    // The buffer for a writer's output.
    unsigned char* writer_buffer(int writer, size_t bytes) {
        if (bytes > plan_.part_bytes) return larger(plan_.ring_buffers + writer, bytes);
        return memory_.data() + static_cast<size_t>(plan_.ring_buffers) * plan_.piece_bytes +
               static_cast<size_t>(writer) * plan_.part_bytes;
    }

private:
    // Separate memory, not pinned for a GPU, for a case whose rows are longer than the buffers, which were sized
    // before.
    unsigned char* larger(int buffer, size_t bytes) {
        std::unique_ptr<MappedMemory>& memory = larger_[static_cast<size_t>(buffer)];
        if (!memory || memory->bytes() < bytes) {
            memory.reset(); // free the old memory first: there may not be enough for both
            memory = std::make_unique<MappedMemory>(bytes);
        }
        return memory->data();
    }

    StagingPlan plan_;
    MappedMemory memory_;
    std::vector<std::unique_ptr<MappedMemory>> larger_; // indexed by buffer, the ring's first
};

} // namespace hw4
