// The fields that the lines of all timers have, as JSON. No CUDA here, so that they can be tested anywhere.
#pragma once

#include <string>

#include "src/base/json.h"
#include "src/bench/sampling.h"
#include "src/io/case_values.h"
#include "src/problem/problem.h"

namespace hw4::gpu {

// "batches": 4, "tokens": 16384, "dim": 64, "flop": 2.74877907e+11
inline std::string problem_fields(const Problem& problem) {
    return "\"batches\": " + std::to_string(problem.batches) + ", \"tokens\": " + std::to_string(problem.queries) +
           ", \"dim\": " + std::to_string(problem.dim) + ", \"flop\": " + json_number(problem.flops());
}

// "operation": "backward"
inline std::string operation_field(const Problem& problem) {
    return "\"operation\": " + json_string(problem.operation->name);
}

// "scratch_bytes": 1048576
inline std::string scratch_field(size_t bytes) { return "\"scratch_bytes\": " + std::to_string(bytes); }

// "mask": "causal"
inline std::string mask_field(const Problem& problem) { return "\"mask\": " + json_string(name_of(problem.mask)); }

// "kind": "normal:3"
inline std::string kind_field(const Distribution& values) { return "\"kind\": " + json_string(spelling_of(values)); }

// "elements": "float32"
inline std::string elements_field(Element element) { return "\"elements\": " + json_string(name_of(element)); }

// "launches": 2, "seconds": [0.005, 0.0051]
inline std::string timing_fields(const Timing& timing) {
    std::string text = "\"launches\": " + std::to_string(timing.launches) + ", \"seconds\": [";
    for (size_t i = 0; i < timing.seconds.size(); ++i) text += (i == 0 ? "" : ", ") + json_number(timing.seconds[i]);
    return text + "]";
}

} // namespace hw4::gpu
