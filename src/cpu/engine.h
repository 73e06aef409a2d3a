// Attention on the CPU: all cores, the widest vectors the processor has.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/cpu/kernel.h"
#include "src/run/engine.h"

namespace hw4::cpu {

// The kernel of that name, or the best of the contract that this processor supports when `name` is empty.
// Throws Error (usage) for an unknown name, one of another contract or one this processor lacks.
const Kernel& choose_kernel(const std::string& name, Arithmetic arithmetic = Arithmetic::f32);

// Bytes that attend_batches() needs for what the kernel prepares of up to `most` batches; 0 where it prepares nothing.
size_t prepared_room(const Kernel& kernel, const Shape& shape, int64_t most, int threads);

// `count` batches, Q K V Q K V ..., to O O ...; the bytes do not depend on `threads`. `prepared` is aligned to 64 bytes
// and has prepared_room() for `count` batches or more; any content. `done(rows)` is called by the working threads after
// each block of rows.
void attend_batches(const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out,
                    void* prepared, int threads, const std::function<void(int64_t rows)>& done);

// The same with room of its own.
void attend_batches(const Kernel& kernel, const Shape& shape, int64_t count, const float* qkv, float* out, int threads);

// Throws Error (usage, out_of_memory).
std::unique_ptr<Engine> make_engine(const EngineRequest& request);

} // namespace hw4::cpu
