// Divides work among persistent blocks: they draw from a queue, whole rows of tiles first, the last rows in pieces.
// Pure functions, tested without a GPU.
//
// If rows differ in length, as under a mask, they are drawn from the longest to the shortest, and none is cut: the last
// ones are as short as pieces. Nor is any if rows are too few (is_worth_a_queue).
//
// Why not shares.h, which assigns work at the start: multiprocessors are not equally fast for every kernel, and a
// slower one draws less. For f32 the queue brings 2 to 6 %, shares brought 0.5 to 3 %. The price is that a block learns
// of its next work only when it draws it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/inline.h"
#include "src/gpu/device.h"

namespace hw4::gpu {

constexpr unsigned kCutRows = 2;    // rows that come in pieces, per block
constexpr unsigned kMostPieces = 8; // of a row

struct Queue {
    unsigned whole; // rows, first in the queue
    unsigned cut;   // rows: then come the first pieces of all of them, then all second pieces, ...
    unsigned pieces;
    unsigned ends[kMostPieces]; // where piece n of a row ends, in tiles

    HW4_INLINE unsigned length() const { return whole + cut * pieces; }
};

// With fewer than three rows for two blocks a queue does not pay: too many blocks would find no first piece for a
// second turn, and wait for others to end theirs.
HW4_INLINE bool is_worth_a_queue(int64_t rows, int64_t blocks) { return 2 * rows >= 3 * blocks; }

// The rows that come in pieces, which are the last ones; `equal`: whether all rows have the same length.
HW4_INLINE unsigned cut_rows(unsigned rows, unsigned blocks, bool equal) {
    if (!equal || !is_worth_a_queue(rows, blocks)) return 0;
    return rows < kCutRows * blocks ? rows : kCutRows * blocks;
}

// The rest of a cut row after a piece is a half or, if nearly every block finds a first piece for a second turn, a
// third. The last piece is at most two tiles and a 64th of the row.
HW4_INLINE void fill(Queue& queue, unsigned rows, unsigned tiles, unsigned blocks, bool equal) {
    queue.cut = cut_rows(rows, blocks, equal);
    queue.whole = rows - queue.cut;
    const unsigned part = 3 * queue.cut < 5 * blocks ? 2 : 3;
    queue.pieces = 0;
    for (unsigned remaining = tiles; remaining > 0; ++queue.pieces) {
        const bool last = remaining <= 2 + tiles / 64 || queue.pieces + 1 == kMostPieces;
        remaining = last ? 0 : remaining / part;
        queue.ends[queue.pieces] = tiles - remaining;
    }
}

// ---- Whether a problem should be cut into half as many rows per block

// A problem in blocks of rows; `fitting` blocks fit a multiprocessor.
struct RowBlocks {
    int64_t count;
    int fitting;
    bool masked = false;
    double length = 1; // the average, relative to a row that sees all keys
};

// Always under a mask: no other kernel takes rows that differ in length.
inline bool is_worth_a_queue(const RowBlocks& blocks, const Device& device) {
    return blocks.masked || is_worth_a_queue(blocks.count, int64_t{blocks.fitting} * device.multiprocessors);
}

// A multiprocessor is done when its last block is; if blocks draw their work from a queue, all are done at the same
// time. Small blocks fill the multiprocessors more evenly when there are few blocks, but a small one is more than half
// the work of a large one: 8 x 4 tiles of scores need more loads per fma (d = 64), or only four warps fit a
// multiprocessor (d = 128). The cost is estimated from the clocks per fma of 8 x 4 and 8 x 8 tiles; with it t10 takes
// 15 % less time on an H200 than with large blocks. A block alone where several fit takes nearly the time of two that
// share a multiprocessor: measured on an H200 with one head of 16384 rows.
constexpr double kSmallBlockCost = 0.54;
constexpr double kCostOfAlone = 0.88;

inline bool takes_small_tiling(const RowBlocks& large, const RowBlocks& small, size_t large_bytes, bool drawn,
                               const Device& device) {
    if (device.shared_bytes < large_bytes) return true;
    const auto turns = [&](const RowBlocks& blocks) {
        if (blocks.masked) // a multiprocessor needs at least the time of the longest block
            return std::max(1.0, static_cast<double>(blocks.count) * blocks.length / device.multiprocessors);
        if (drawn && is_worth_a_queue(blocks, device))
            return static_cast<double>(blocks.count) / device.multiprocessors;
        const int64_t most = (blocks.count + device.multiprocessors - 1) / device.multiprocessors;
        const bool alone = blocks.fitting > 1 && most % blocks.fitting == 1; // the last block
        return static_cast<double>(most) + (alone ? kCostOfAlone : 0);
    };
    return turns(small) * kSmallBlockCost < turns(large);
}

} // namespace hw4::gpu
