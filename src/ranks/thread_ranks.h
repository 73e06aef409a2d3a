// Ranks that are threads of one process, as for several cards in one machine.
#pragma once

#include <functional>

#include "src/ranks/ranks.h"

namespace hw4 {

// Runs `body` once for each rank, the first one's by the calling thread. A body may only throw where those of the
// others do too, or they fail in their next exchange. Throws what the first rank's throws, or else the next one's; what
// fails for another's failure last.
void on_thread_ranks(int count, const std::function<void(Ranks&)>& body);

} // namespace hw4
