// Whether a problem is better cut into half as many rows a block. Pure, so that it is tested without a GPU.
#pragma once

#include <algorithm>

#include "src/gpu/common/tile_queue.h"
#include "src/gpu/device.h"

namespace hw4::gpu {

// A problem in blocks of rows, of which so many fit a multiprocessor.
struct RowBlocks {
    int64_t count;
    int fitting;
    bool masked = false;
    double length = 1; // on average, of a row that sees all keys
};

// Always under a mask: nobody else takes rows that differ in length.
inline bool is_worth_a_queue(const RowBlocks& blocks, const Device& device) {
    return blocks.masked || is_worth_a_queue(blocks.count, int64_t{blocks.fitting} * device.multiprocessors);
}

// A multiprocessor is done when its last block is; if blocks draw their work from a queue, all are at the same time.
// Small blocks fill the multiprocessors more evenly when there are few blocks, but a small one is more than half the
// work of a large one: 8 x 4 tiles of scores load more a fma (d = 64), or only four warps fit a multiprocessor
// (d = 128). The cost is an estimate, from the clocks that 8 x 4 and 8 x 8 tiles take a fma; with it t10 takes 15 %
// less time on an H200 than with large blocks.
constexpr double kSmallBlockCost = 0.54;

inline bool takes_small_tiling(const RowBlocks& large, const RowBlocks& small, size_t large_bytes, bool drawn,
                               const Device& device) {
    if (device.shared_bytes < large_bytes) return true;
    const auto turns = [&](const RowBlocks& blocks) {
        if (blocks.masked) // the longest takes a whole one
            return std::max(1.0, static_cast<double>(blocks.count) * blocks.length / device.multiprocessors);
        if (drawn && is_worth_a_queue(blocks, device))
            return static_cast<double>(blocks.count) / device.multiprocessors;
        return static_cast<double>((blocks.count + device.multiprocessors - 1) / device.multiprocessors);
    };
    return turns(small) * kSmallBlockCost < turns(large);
}

} // namespace hw4::gpu
