// hw4 --list-kernels, for people and, as JSON, for the judge, the scripts and the tests; hw4 --version.
#pragma once

#include <string>

namespace hw4 {

std::string list_text();
std::string list_json();

// "hw4 0.2.0, contracts f32.forward/1 fixed.forward/2 fixed16.forward/1 ..., CUDA 13.0 for sm_90"
std::string version_line();

} // namespace hw4
