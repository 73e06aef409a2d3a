// exp2_scaled() with a scale of 1 over ranges of floats, named by the bits of the first and of the one behind the last.
// In a file of its own, which is compiled as the programs are: these are billions.
#pragma once

#include <cstdint>

namespace hw4 {

double largest_exp2_error(uint32_t first, uint32_t last); // relative to the exact 2^x
double exp2_differences_from_one(uint32_t first, uint32_t last);

} // namespace hw4
