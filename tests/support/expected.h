// The output that every engine must give, to the byte. The unit tests compute it by the contract's plain reference
// (expected_by_reference.cpp). The GPU tests use the CPU kernels (expected_by_cpu.cpp), which are many times as fast
// and which the unit tests compare with the reference.
#pragma once

#include "src/contracts/contract.h"

namespace hw4 {

// Like compute_by_reference(), in one thread.
void compute_expected(const Contract& contract, const Problem& problem, const float* in, float* out,
                      RowStatistics* statistics);

} // namespace hw4
