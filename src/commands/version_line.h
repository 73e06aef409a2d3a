#pragma once

#include <string>

namespace hw4 {

// "hw4 0.2.0, contracts f32.forward/1 fixed.forward/2 fixed16.forward/1 ..., CUDA 13.0 for sm_90"
std::string version_line();

} // namespace hw4
