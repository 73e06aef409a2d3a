// Operands of a launch, which are float32, rounded to 16 bits in its scratch memory, and O as floats again.
#pragma once

#include "src/gpu/half/forward/args.h"
#include "src/gpu/launch.h"

namespace hw4::gpu::half_forward {

size_t rounded_bytes(const Problem& problem);

// To the beginning of the scratch memory, rounded_bytes() of it: a counter of 0, and Q, K and V packed, each row with
// zeros up to a multiple of 8 columns. O is to be where Q is.
Args round_operands(const Launch& launch, NumberType type, cudaStream_t stream);

// O to where the launch wants it.
void widen_output(const Launch& launch, const Args& args, cudaStream_t stream);

} // namespace hw4::gpu::half_forward
