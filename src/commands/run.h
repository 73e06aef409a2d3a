// hw4 INPUT OUTPUT.
#pragma once

#include "src/commands/options.h"

namespace hw4 {

// Throws Error.
void run(const Options& options);

} // namespace hw4
