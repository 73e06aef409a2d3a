// How much of a case is on the GPU at a time: the number of slots, and of batches in each. No CUDA here, so that the
// plan can be tested anywhere.
#pragma once

#include <algorithm>
#include <limits>

#include "src/gpu/device.h"
#include "src/run/engine.h"

namespace hw4::gpu {

struct SlotPlan {
    int slots;
    int64_t batches; // per slot

    friend bool operator==(const SlotPlan& a, const SlotPlan& b) {
        return a.slots == b.slots && a.batches == b.batches;
    }
};

constexpr SlotPlan kSmallestPlan = {1, 1};
constexpr size_t kRowAlignment = 512;                  // rows of floats are padded to this, as by cudaMallocPitch
constexpr size_t kNarrowAlignment = 128;               // for rows of 16-bit numbers
constexpr size_t kSlotDeviceBytes = size_t{256} << 20; // a slot on the device, unless one batch is larger
constexpr size_t kOnlySlotBytes = size_t{1} << 30;     // the same with one stream
constexpr size_t kLeastMoreScratch = size_t{1} << 20;  // less beyond what a kernel needs does not pay
constexpr int64_t kMaxGridBlocks = std::numeric_limits<int32_t>::max(); // of a one-dimensional grid
// Beyond this, the arithmetic takes longer than the copies: 50 GB/s, 50 TFLOP/s.
constexpr double kWeightyFlopPerByte = 1000;
constexpr int64_t kLeastBlockRows = 4; // rows of a block in the kernel with the smallest blocks

// Bytes from one row to the next.
inline size_t row_pitch(const Problem& problem, Copies copies) {
    const size_t row_bytes = problem.stored_row_bytes();
    if (copies == Copies::linear) return row_bytes;
    const size_t alignment = problem.element == Element::float32 ? kRowAlignment : kNarrowAlignment;
    return (row_bytes + alignment - 1) / alignment * alignment;
}

// Bytes for each output row besides the row.
inline size_t bytes_beside_output(bool statistics) { return statistics ? sizeof(RowStatistics) : 0; }

// A batch's input and output, with its rows' statistics if wanted. For d = 1 padded rows take 100 times the file's
// bytes.
inline size_t device_bytes_per_batch(const Problem& problem, Copies copies, bool statistics = false) {
    const auto rows = static_cast<size_t>(problem.batch_input_rows() + problem.batch_output_rows());
    return rows * row_pitch(problem, copies) +
           static_cast<size_t>(problem.batch_output_rows()) * bytes_beside_output(statistics);
}

// Query rows that about fill a large GPU once: blocks of 128 on 132 multiprocessors; each takes three, two or one
// blocks. With a few rows less all multiprocessors work once; with a few more they would work twice.
inline int64_t filling_rows(const Problem& problem) {
    return int64_t{128} * 128 * (problem.dim <= 32 ? 3 : problem.dim <= 64 ? 2 : 1);
}

// Enough batches for a launch to fill the GPU, where that matters: a case that takes longer to copy than to compute
// stays in small chunks, so that copies never pause.
inline int64_t filling_batches(const Problem& problem) {
    const auto bytes = static_cast<double>(problem.stored_input_bytes() + problem.stored_output_bytes());
    if (problem.flops() < kWeightyFlopPerByte * bytes) return 1;
    return std::min(problem.batches, filling_rows(problem) / (problem.heads * problem.queries));
}

// Blocks of the largest grid for a batch: over the queries or, if the output has rows of keys, over the keys.
inline int64_t blocks_of_batch(const Problem& problem) {
    int64_t most = 0;
    for (const Operand& output : problem.operation->outputs) {
        const int64_t of_head = (problem.head_rows(output) + kLeastBlockRows - 1) / kLeastBlockRows;
        most = std::max(most, problem.heads_of(output) * of_head);
    }
    return most;
}

inline SlotPlan plan_slots(const Problem& problem, const EngineOptions& options) {
    const bool overlaps = options.streams > 1;
    int64_t batches = options.chunk_batches > 0 ? options.chunk_batches
                      : overlaps ? std::max(chunk_batches_for(problem, options.streams), filling_batches(problem))
                                 : problem.batches; // one launch: several would only leave the GPU partly empty
    const size_t batch_bytes = device_bytes_per_batch(problem, options.copies, options.statistics);
    const size_t slot_bytes = overlaps ? kSlotDeviceBytes : kOnlySlotBytes;
    batches = std::min(batches, static_cast<int64_t>(slot_bytes / batch_bytes));
    batches = std::clamp<int64_t>(batches, 1, std::max<int64_t>(1, kMaxGridBlocks / blocks_of_batch(problem)));
    const int64_t chunks = (problem.batches + batches - 1) / batches;
    return {static_cast<int>(std::min<int64_t>(options.streams, chunks)), batches};
}

// Whether the output of a batch is complete from the first row on when its queries are computed in order. Kernels of
// backward take all queries at once, even for dQ alone.
inline bool can_slice(const Problem& problem) {
    return problem.operation == &kForward && problem.heads == 1 && !problem.by_lengths;
}

// The number of query rows of a batch to compute at once. A batch larger than a slot is computed in slices that fill a
// large GPU; the output of the first is copied out and written while the others are computed.
inline int64_t plan_queries(const Problem& problem, const EngineOptions& options, int64_t slot_batches) {
    const size_t batch_bytes = device_bytes_per_batch(problem, options.copies, options.statistics);
    const bool split = options.queries_at_once > 0 || batch_bytes > kSlotDeviceBytes;
    if (slot_batches > 1 || !split || !can_slice(problem)) return problem.queries;
    const int64_t wanted = options.queries_at_once > 0 ? options.queries_at_once : filling_rows(problem);
    return std::min(problem.queries, (wanted + kQueryStep - 1) / kQueryStep * kQueryStep);
}

// The largest launch of such a run, as a problem.
inline Problem launch_problem(const Problem& problem, int64_t slot_batches, int64_t queries) {
    Problem part = problem.of_batches(std::min(problem.batches, slot_batches));
    part.queries = queries;
    return part;
}

// The next plan to try if memory is short: half the batches, then fewer slots, down to kSmallestPlan.
inline SlotPlan smaller(const SlotPlan& plan) {
    if (plan.batches > 1) return {plan.slots, plan.batches / 2};
    return {std::max(1, plan.slots - 1), 1};
}

// A stream's scratch memory: up to `most`, beyond which more does not make launches faster, within the budget of all
// streams; never less than the least.
inline size_t scratch_for(size_t least, size_t most, size_t budget, int streams) {
    return std::max(least, std::min(most, budget / static_cast<size_t>(streams)));
}

// The next size to try if memory is short, before anything else shrinks: half of what is beyond the least.
inline size_t smaller_scratch(size_t bytes, size_t least) {
    const size_t beyond = (bytes - least) / 2;
    return beyond < kLeastMoreScratch ? least : least + beyond;
}

} // namespace hw4::gpu
