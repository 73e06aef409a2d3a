// Who shares the processors of a machine.
#pragma once

#include <string>

#include "src/ranks/ranks.h"

namespace hw4 {

// Called by all: of `available` processors, which are `set`, those for this rank. Who may run on the same ones of the
// same machine divide them; whom a launcher has bound to some of its own has all of those.
int share_of_processors(Ranks& ranks, int available, const std::string& set);

} // namespace hw4
