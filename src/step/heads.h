// Attention of a micro-batch by the CPU kernels of contract f32.
#pragma once

#include "src/step/host_machine.h"
#include "src/step/team.h"

namespace hw4::step {

// Operands as in a file. Forward, where `forward_out` is null, writes the statistics; backward reads them. Throws Error
// (out_of_memory).
void compute_heads(Team& team, Room& scratch, const Problem& problem, const float* in, const float* forward_out,
                   RowStatistics* statistics, float* out);

} // namespace hw4::step
