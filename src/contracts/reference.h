// The sequential references of every contract, one thread and plain loops, for the contracts' rows.
#pragma once

#include "src/contracts/contract.h"

namespace hw4 {

void f32_forward(const UnitOperands& unit);
void f32_backward(const UnitOperands& unit);
void fixed_forward(const UnitOperands& unit);
void fixed16_forward(const UnitOperands& unit);
void bf16_forward(const UnitOperands& unit);
void bf16_backward(const UnitOperands& unit);
void fp16_forward(const UnitOperands& unit);
void fp16_backward(const UnitOperands& unit);

} // namespace hw4
