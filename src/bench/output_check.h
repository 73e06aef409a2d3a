// Whether an output has the bytes it should have. No CUDA here, so that it can be tested anywhere.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/contracts/f32/forward.h"

namespace hw4::gpu {

// Exit code 70 and the first difference when they differ.
inline void require_same_bytes(const std::vector<float>& expected, const std::vector<float>& output,
                               const std::string& name) {
    size_t i = 0;
    while (i < expected.size() && i < output.size() && bits_of(expected[i]) == bits_of(output[i])) ++i;
    if (i == expected.size() && i == output.size()) return;
    char text[160] = "another number of values";
    if (i < expected.size() && i < output.size())
        std::snprintf(text, sizeof text, "value %zu is %.9g (%08x), not %.9g (%08x)", i, double{output[i]},
                      bits_of(output[i]), double{expected[i]}, bits_of(expected[i]));
    throw Error(ExitCode::internal, name + ": wrong bytes: " + text);
}

} // namespace hw4::gpu
