// Attention of a micro-batch by the CPU kernels of contract f32, which take heads one after the other.
#pragma once

#include "src/cpu/kernels.h"
#include "src/step/machine.h"
#include "src/step/team.h"

namespace hw4::step {

class Heads {
public:
    // Both throw Error (out_of_memory).
    void attend(Team& team, const float* qkv, float* o, RowStatistics* statistics, int64_t sequences, int64_t context,
                const Model& model);
    void attend_back(Team& team, const float* qkv, const float* o, const RowStatistics* statistics, const float* d_o,
                     float* d_qkv, int64_t sequences, int64_t context, const Model& model);

private:
    Room operands_;
    Room scratch_;
};

} // namespace hw4::step
