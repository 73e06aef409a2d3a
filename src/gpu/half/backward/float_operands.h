// Operands of a backward launch, which are float32, rounded to 16 bits in its scratch memory, and gradients as floats
// again.
#pragma once

#include "src/gpu/half/backward/args.h"
#include "src/gpu/launch.h"

namespace hw4::gpu::half_backward {

// With or without the sums of dQ, which are last.
size_t rounded_bytes(const Problem& problem, bool sums);

// To the scratch memory, rounded_bytes() of it: forward's counter, Q, K, V and dO, packed, each row
// with zeros up to a multiple of 8 columns; O likewise where the launch has it, else room for it and its statistics;
// and room for the gradients and for what the kernel has in memory.
Args round_operands(const Launch& launch, NumberType type, cudaStream_t stream);

// Gradients to where the launch wants them.
void widen_gradients(const Launch& launch, const Args& args, cudaStream_t stream);

} // namespace hw4::gpu::half_backward
