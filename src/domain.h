// Which numbers the contract is defined for: finite ones whose scores and sums cannot overflow fp32.
#pragma once

#include <string>

#include "shape.h"

namespace hw4 {

// Checks `count` batches laid out Q K V Q K V ..., the first being batch `first` of the file `path`.
// Throws Error (bad_data) that names the batch and the element or row. One pass over the data.
void check_domain(const std::string& path, const Shape& shape, int64_t first, int64_t count, const float* qkv);

} // namespace hw4
