// hw4 INPUT OUTPUT, hw4 INPUT OUTPUT INPUT OUTPUT ..., hw4 --pairs FILE.
#pragma once

#include "src/base/error.h"
#include "src/commands/options.h"

namespace hw4 {

// Throws Error.
void run_one(const Options& options);

// Every case that fails says so in a line of its own, and the others go on. Returns the exit code of the first that
// did. Throws Error where it is not a case that fails.
ExitCode run_many(const Options& options);

} // namespace hw4
