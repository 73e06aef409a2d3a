// How the input is cut into pieces and the output into parts, and how many threads read and write them. Known from the
// problem alone, so that reading starts before the engine is there.
#pragma once

#include <algorithm>
#include <cstdint>

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
    int64_t piece_rows; // input rows, in one buffer of the ring
    int64_t part_rows;  // output rows, in a writer's buffer
    int ring_buffers;
    size_t piece_bytes; // of a buffer
    size_t part_bytes;

    size_t bytes() const {
        return static_cast<size_t>(ring_buffers) * piece_bytes + static_cast<size_t>(writers) * part_bytes;
    }
};

constexpr size_t kPageBytes = 4096;
constexpr size_t kLeastPieceBytes = size_t{256} << 10; // below, calls cost more than bytes

// Rows that one of `shares` equal buffers would have, within the limits; at least one, however long.
inline int64_t rows_of_piece(size_t row_bytes, int64_t rows, int64_t shares, size_t most_bytes) {
    const auto of_bytes = [&](size_t bytes) { return static_cast<int64_t>(bytes / row_bytes); };
    const int64_t share = (rows + shares - 1) / shares;
    const int64_t least = of_bytes(std::min(kLeastPieceBytes, most_bytes));
    return std::clamp<int64_t>(std::min(std::max(share, least), of_bytes(most_bytes)), 1, rows);
}

// A pipe has one reader or one writer. `beside_output`: bytes that come with each output row.
inline StagingPlan plan_staging(const Problem& problem, bool many_readers, bool many_writers,
                                const StagingLimits& limits, size_t beside_output = 0) {
    const auto count = [](int64_t rows, int64_t of) { return (rows + of - 1) / of; };
    const auto page_bytes = [](int64_t rows, size_t row_bytes) {
        const size_t bytes = static_cast<size_t>(rows) * row_bytes;
        return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    };
    constexpr int64_t kShares = 2; // pieces a thread should find, at least
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

// Buffers and threads for any number of cases, which are not known yet.
inline StagingPlan plan_for_any(const StagingLimits& limits) {
    StagingPlan plan{};
    plan.readers = limits.readers;
    plan.writers = limits.writers;
    plan.piece_bytes = plan.part_bytes = limits.piece_bytes;
    plan.ring_buffers = static_cast<int>(std::max<size_t>(limits.ring_bytes / limits.piece_bytes, 2));
    return plan;
}

} // namespace hw4
