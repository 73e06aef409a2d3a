// Where a batch may be cut by its query rows: every kernel's blocks of rows fit in between.
#pragma once

#include <cstdint>

namespace hw4::gpu {

constexpr int64_t kQueryStep = 1024;

} // namespace hw4::gpu
