// The arithmetic contracts a case can be computed under: "f32" (f32/forward.h) and "fixed" (fixed/forward.h).
#pragma once

#include <cstring>

#include "src/contracts/f32/forward.h"
#include "src/contracts/fixed/forward.h"

namespace hw4 {

enum class Arithmetic { f32, fixed };

constexpr Arithmetic kArithmetics[] = {Arithmetic::f32, Arithmetic::fixed};

inline const char* name_of(Arithmetic arithmetic) {
    return arithmetic == Arithmetic::f32 ? kContractName : fixed::kContractName;
}

// False when there is none of that name.
inline bool parse_arithmetic(const char* name, Arithmetic& arithmetic) {
    for (const Arithmetic one : kArithmetics)
        if (std::strcmp(name, name_of(one)) == 0) {
            arithmetic = one;
            return true;
        }
    return false;
}

} // namespace hw4
