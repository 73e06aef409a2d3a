// hw4 bench allreduce and hw4 bench gradients: what several ranks measure together.
#pragma once

#include <string>
#include <vector>

#include "src/commands/bench_collective_options.h"
#include "src/ranks/ranks.h"

namespace hw4 {

// Called by all ranks, of which the first says and writes what comes of it. Throws Error.
ExitCode run_allreduce(const bench::AllreduceRequest& request, std::vector<std::string> argv, Ranks& ranks);
ExitCode run_gradients(const bench::GradientsRequest& request, std::vector<std::string> argv, Ranks& ranks);

} // namespace hw4
