// Whether a problem is better cut into half as many rows a block. Pure, so that it is tested without a GPU.
#pragma once

#include "../kernels.h"

namespace hw4::gpu {

// A multiprocessor is done when its last block is. Small blocks are half the work at 1.08 times the price (8 x 4 tiles
// load more a fma), but fill the multiprocessors more evenly when there are few of them.
constexpr double kSmallBlockCost = 0.54;

inline bool takes_small_tiling(int64_t large_blocks, int64_t small_blocks, size_t large_bytes, const Device& device) {
    if (device.shared_bytes < large_bytes) return true;
    const auto turns = [&](int64_t blocks) {
        return static_cast<double>((blocks + device.multiprocessors - 1) / device.multiprocessors);
    };
    return turns(small_blocks) * kSmallBlockCost < turns(large_blocks);
}

} // namespace hw4::gpu
