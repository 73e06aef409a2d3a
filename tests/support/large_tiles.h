// How f32's register-tile kernels tile a problem, according to their own headers. A separate file, so that tests that
// use it are host code alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/gpu/device.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

// Above 32 columns the register-tile kernels take large tiles where every multiprocessor gets enough work and the GPU
// has the shared memory, otherwise small ones.
bool takes_large_tiles(const Problem& problem, size_t large_bytes, const Device& device);

size_t large_tile_bytes(int64_t dim);

} // namespace hw4::gpu
