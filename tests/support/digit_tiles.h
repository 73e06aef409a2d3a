// Properties of the contracts that compute in digits, for tests.
#pragma once

#include "src/contracts/contract.h"
#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"

namespace hw4 {

// The number of keys that share a scale.
inline int64_t tile_keys_of(const Contract& contract) {
    return &contract == &kFixed16 ? fixed16::kTileKeys : fixed::kTileKeys;
}

// The coarsest unit that a tile or row is rounded to, relative to its largest number.
inline double digit_unit_of(const Contract& contract) { return &contract == &kFixed16 ? 0x1p-14 : 0x1p-22; }

} // namespace hw4
