// Ranks that measure together: their places, and how they agree on a result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/json.h"
#include "src/bench/outcome.h"
#include "src/ranks/ranks.h"

namespace hw4::bench {

struct RankGroup {
    int ranks = 1;
    int machines = 1;
    int cards = 0; // in use by the ranks; 0: none
    std::string device = "cpu";
    std::string library; // the communication library; empty: none

    // Whether some ranks share a GPU: their times say little about separate GPUs.
    bool shares_cards() const { return cards > 0 && cards < ranks; }
};

// Called by all ranks, like all functions below. A rank on a GPU already uses its GPU.
RankGroup group_of(Ranks& ranks, const std::string& device, const std::string& library);

// "4 ranks on one machine, on one GPU that ranks share, Open MPI v4.1.4"
std::string words_of(const RankGroup& group);
void add_group(JsonFields& fields, const RankGroup& group);

// ok where every rank's work is; otherwise the first rank's failure.
Outcome agreed_outcome(Ranks& ranks, const std::function<void()>& work);
Outcome agreed_outcome(Ranks& ranks, const Outcome& mine);

// The element-wise maximum over all ranks.
std::vector<double> largest_of_ranks(Ranks& ranks, const std::vector<double>& mine);

// The number of repeats, which all ranks share.
struct CollectiveRules {
    int warmup = 5; // as in CS336's study
    int repeats = 20;
    double limit_s = 10; // fewer repeats, from 3 on, where they would take longer
};

// Seconds of `work`, started together, until the slowest rank is done: one number per repeat.
std::vector<double> slowest_seconds(Ranks& ranks, Collectives& collectives, const CollectiveRules& rules,
                                    const std::function<void()>& work);

} // namespace hw4::bench
