// hw4 INPUT OUTPUT by several ranks: each opens the input, reads, computes and writes its share, and the first one,
// when all have agreed, gives the output its name.
#pragma once

#include "src/base/interrupt.h"
#include "src/commands/options.h"
#include "src/ranks/ranks.h"

namespace hw4 {

// Called by all ranks, with the same options but for the card. Throws AgreedError.
void run_on_ranks(const Options& options, Ranks& ranks, InterruptGuard& interrupts);

// On several cards of this machine, by a thread for each. Throws Error.
void run_on_cards(const Options& options);

} // namespace hw4
