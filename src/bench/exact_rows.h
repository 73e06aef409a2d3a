// Whether a result is right: sampled rows of it beside the same rows in float64, and beside the contract's reference,
// byte by byte.
#pragma once

#include <optional>

#include "src/bench/row.h"
#include "src/bench/workbench.h"
#include "src/contracts/contract.h"

namespace hw4::bench {

// Outputs are as a file of the problem's operation has them.

// Rows of O; or of dQ and, where a head is small enough that all its pairs can be looked at, of dK and dV.
RowError error_of_rows(const CaseData& data, const float* output);

// All rows where the case is small; else some rows of O that see all keys, and of gradients nothing. Rounded to the
// problem's element, as in a file.
std::optional<bool> has_reference_bytes(const Contract& contract, const CaseData& data, const float* output);

} // namespace hw4::bench
