// Checks a result: compares sampled rows with the same rows in float64, and with the contract's reference, byte by
// byte.
#pragma once

#include <optional>

#include "src/bench/row.h"
#include "src/bench/workbench.h"
#include "src/contracts/contract.h"

namespace hw4::bench {

// Outputs are laid out as in a file of the problem's operation.

// The error of rows of O; or of dQ and, where a head is small enough to compute all its pairs, of dK and dV.
RowError error_of_rows(const CaseData& data, const float* output);

// Compares all rows where the case is small; otherwise some rows of O that see all keys, and no gradients. Values are
// rounded to the problem's element, as in a file.
std::optional<bool> has_reference_bytes(const Contract& contract, const CaseData& data, const float* output);

} // namespace hw4::bench
