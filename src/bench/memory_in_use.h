// The memory that a training step has in use: each tensor from the operation that writes it to the last one that reads
// it, as a framework holds it that takes memory for each tensor. hw4 itself takes all memory before the first step.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "src/bench/memory_count.h"

namespace hw4::bench {

enum class StepOperation { embedding, products, norms, rope, attention, swiglu, loss, sums, optimizer };
inline constexpr StepOperation kStepOperations[] = {
    StepOperation::embedding, StepOperation::products,  StepOperation::norms,
    StepOperation::rope,      StepOperation::attention, StepOperation::swiglu,
    StepOperation::loss,      StepOperation::sums,      StepOperation::optimizer};

constexpr const char* name_of(StepOperation operation) {
    constexpr const char* kNames[] = {"embedding", "products", "norms", "rope",     "attention",
                                      "swiglu",    "loss",     "sums",  "optimizer"};
    return kNames[static_cast<size_t>(operation)];
}

// A phase begins with its first operation: the embedding, the first product after the loss, the squares for the clip.
enum class StepPhase { forward, backward, optimizer };
inline constexpr StepPhase kStepPhases[] = {StepPhase::forward, StepPhase::backward, StepPhase::optimizer};

constexpr const char* name_of(StepPhase phase) {
    return phase == StepPhase::forward ? "forward" : phase == StepPhase::backward ? "backward" : "optimizer";
}

// Memory that an operation of a step uses.
struct Use {
    uintptr_t at = 0;
    size_t bytes = 0;
    bool is_written = false; // without being read: from here on it is another tensor
    size_t lap = 0;          // the operation's place in the step
    StepOperation operation{};
    StepPhase phase{};
    double passes = 1; // how often the operation moves its bytes: twice where it reads and writes them
};

struct MemoryInUse {
    std::vector<MemoryEvent> events;
    size_t peak = 0;
};

// `held`: all allocations, addresses and bytes. Memory that the step reads first is held from step to step: parameters,
// AdamW's m and v, RoPE's table, and `scratch` bytes of the machine itself. A piece of an allocation that operations
// name by its own address is a tensor. `forward_alone`: only the first forward, and no tensor outlives its last use in
// it. `seconds`: of each lap.
MemoryInUse memory_in_use(const std::map<uintptr_t, size_t>& held, const std::vector<Use>& uses,
                          const std::vector<double>& seconds, size_t scratch, bool forward_alone);

} // namespace hw4::bench
