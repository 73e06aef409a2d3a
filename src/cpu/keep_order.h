// Compilers load nothing across this. Where they may, they load all operands of a panel's step as early as they can,
// run out of registers and keep sums in memory.
#pragma once

#include "src/base/inline.h"

namespace hw4::cpu {

HW4_INLINE void keep_order() { asm volatile("" ::: "memory"); }

} // namespace hw4::cpu
