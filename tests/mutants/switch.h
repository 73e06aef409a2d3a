// Which of the mutants that are compiled into a program is in force: HW4_MUTANT in the environment, 0 for none.
// Included before everything else by the build of `make mutants`, and by no other.
#pragma once

#include <cstdlib>

inline const int hw4_mutant = [] {
    const char* const text = std::getenv("HW4_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
}();

// Inlined like the contracts' own functions, which call it from code for every kind of vector unit.
inline __attribute__((always_inline)) bool mutant_is(int number) { return hw4_mutant == number; }
