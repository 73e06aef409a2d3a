// Sums that were left apart, added up in the contract's order.
#pragma once

#include "src/gpu/f32/backward/round_args.h"

namespace hw4::gpu {

// Where a unit's rows come in several rounds, what dK and dV have of it so far. What they have of the heads before
// waits in the output.
struct RunningTotals {
    float* dk = nullptr; // of the head of queries, [key][part_row]
    float* dv = nullptr;
    bool unit_begins = true; // the round has the first rows of its first unit
    bool unit_ends = true;   // and the last of its last
};

void join_sums(const RoundArgs& args, const RunningTotals& totals, cudaStream_t stream);

} // namespace hw4::gpu
