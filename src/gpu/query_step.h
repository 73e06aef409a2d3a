// Where a batch may be cut by its query rows. Blocks of rows count from the cut, and the last before the next cut may
// have fewer: most kernels' fit in between.
#pragma once

#include <cstdint>

namespace hw4::gpu {

constexpr int64_t kQueryStep = 1024;

} // namespace hw4::gpu
