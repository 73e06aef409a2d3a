// The fields that the lines of all timers have, as JSON. No CUDA here, so that they can be tested anywhere.
#pragma once

#include <cstdio>
#include <string>

#include "src/bench/sampling.h"
#include "src/problem/shape.h"

namespace hw4::gpu {

inline std::string json_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

// "batches": 4, "tokens": 16384, "dim": 64, "flop": 2.74877907e+11
inline std::string shape_fields(const Shape& shape) {
    return "\"batches\": " + std::to_string(shape.batches) + ", \"tokens\": " + std::to_string(shape.tokens) +
           ", \"dim\": " + std::to_string(shape.dim) + ", \"flop\": " + json_number(shape.flops());
}

// "launches": 2, "seconds": [0.005, 0.0051]
inline std::string timing_fields(const Timing& timing) {
    std::string text = "\"launches\": " + std::to_string(timing.launches) + ", \"seconds\": [";
    for (size_t i = 0; i < timing.seconds.size(); ++i) text += (i == 0 ? "" : ", ") + json_number(timing.seconds[i]);
    return text + "]";
}

} // namespace hw4::gpu
