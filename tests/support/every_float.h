// exp2_scaled() with a scale of 1 over ranges of floats, given by the bits of the first and of the one past the last. A
// separate file, compiled like the programs: it covers billions of floats.
#pragma once

#include <cstdint>

namespace hw4 {

double largest_exp2_error(uint32_t first, uint32_t last); // relative to the exact 2^x
double exp2_differences_from_one(uint32_t first, uint32_t last, uint32_t step);

} // namespace hw4
