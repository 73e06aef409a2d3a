#pragma once

namespace hw4 {

constexpr const char* kVersion = "0.2.0";

} // namespace hw4
