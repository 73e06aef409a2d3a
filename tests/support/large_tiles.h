// What the kernels of f32 with register tiles take for a problem, asked of their own headers. In a file of its own, so
// that tests which ask are host code alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/gpu/device.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

// Beyond 32 columns the kernels with register tiles take large ones when there is enough for every multiprocessor to
// do and the card has the shared memory, otherwise small ones.
bool takes_large_tiles(const Problem& problem, size_t large_bytes, const Device& device);

size_t large_tile_bytes(int64_t dim);

} // namespace hw4::gpu
