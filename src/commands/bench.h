// hw4 bench: attention measured over sizes and implementations.
#pragma once

#include "src/base/error.h"

namespace hw4 {

// argv[0] is "bench". Throws Error.
ExitCode run_bench(int argc, char** argv);

} // namespace hw4
