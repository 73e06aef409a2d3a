// What tests need to know of the contracts that compute in digits.
#pragma once

#include "src/contracts/contract.h"
#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"

namespace hw4 {

// Keys that share a scale.
inline int64_t tile_keys_of(const Contract& contract) {
    return &contract == &kFixed16 ? fixed16::kTileKeys : fixed::kTileKeys;
}

// Of the largest number of a tile or row, what it is rounded to at the most.
inline double digit_unit_of(const Contract& contract) { return &contract == &kFixed16 ? 0x1p-14 : 0x1p-22; }

} // namespace hw4
