// Attention on the CPU: all cores, the widest vectors the processor has.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "../engine.h"
#include "kernel.h"

namespace hw4::cpu {

// The kernel of that name, or the best this processor supports when `name` is empty.
// Throws Error (usage) for an unknown name or one this processor lacks.
const Kernel& choose_kernel(const std::string& name);

// `count` batches, Q K V Q K V ..., to O O ...; the bytes do not depend on `threads`. `done(rows)` is called by
// the working threads after each block of rows.
void attend_batches(
    const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out, int threads,
    const std::function<void(int64_t rows)>& done = [](int64_t) {});

// Throws Error (usage, out_of_memory).
std::unique_ptr<Engine> make_engine(const EngineRequest& request);

} // namespace hw4::cpu
