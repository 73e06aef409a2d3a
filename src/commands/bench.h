// hw4 bench: attention measured over sizes and implementations.
#pragma once

#include "src/base/error.h"
#include "src/ranks/ranks.h"

namespace hw4 {

// argv[0] is "bench". Called by all ranks, of which only some measurements take several. Throws Error.
ExitCode run_bench(int argc, char** argv, Ranks& ranks);

} // namespace hw4
