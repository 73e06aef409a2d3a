// Whether a problem is better cut into half as many rows a block. Pure, so that it is tested without a GPU.
#pragma once

#include "../kernels.h"

namespace hw4::gpu {

// A multiprocessor is done when its last block is. Small blocks fill the multiprocessors more evenly when there are few
// blocks, but a small one is more than half the work of a large one: 8 x 4 tiles of scores load more a fma (d = 64), or
// only four warps fit a multiprocessor (d = 128). The cost is an estimate, from the clocks that 8 x 4 and 8 x 8 tiles
// take a fma; with it t10 takes 0.33 ms on an H200, with large blocks 0.39.
constexpr double kSmallBlockCost = 0.54;

inline bool takes_small_tiling(int64_t large_blocks, int64_t small_blocks, size_t large_bytes, const Device& device) {
    if (device.shared_bytes < large_bytes) return true;
    const auto turns = [&](int64_t blocks) {
        return static_cast<double>((blocks + device.multiprocessors - 1) / device.multiprocessors);
    };
    return turns(small_blocks) * kSmallBlockCost < turns(large_blocks);
}

} // namespace hw4::gpu
