// Attention on the CPU: all cores, the widest vectors the processor has.
#pragma once

#include <functional>
#include <string>

#include "../engine.h"
#include "kernel.h"

namespace hw4::cpu {

// The kernel of that name, or the best this processor supports when `name` is empty.
// Throws Error (usage) for an unknown name or one this processor lacks.
const Kernel& choose_kernel(const std::string& name);

int default_threads();

// `count` batches, Q K V Q K V ..., to O O ...; the bytes do not depend on `threads`. `done(rows)` is called by
// the working threads after each block of rows.
void attend_batches(
    const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out, int threads,
    const std::function<void(int64_t rows)>& done = [](int64_t) {});

// The whole file.
RunReport run(CaseReader& input, OutputFile& output, const EngineOptions& options);

} // namespace hw4::cpu
