// The ranks that measure something together: where they are, and how they come to one result.
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
    int cards = 0; // that they use; 0: none
    std::string device = "cpu";
    std::string library; // that brings them together; empty: none

    // Whether some use the same card: their times say little of cards of their own.
    bool shares_cards() const { return cards > 0 && cards < ranks; }
};

// Called by all, as all below. A rank on a GPU uses its card already.
RankGroup group_of(Ranks& ranks, const std::string& device, const std::string& library);

// "4 ranks on one machine, on one card that ranks share, Open MPI v4.1.4"
std::string words_of(const RankGroup& group);
void add_group(JsonFields& fields, const RankGroup& group);

// ok where every rank's work is; else what the first says whose is not.
Outcome agreed_outcome(Ranks& ranks, const std::function<void()>& work);

// Of each of so many numbers the largest that a rank has.
std::vector<double> largest_of_ranks(Ranks& ranks, const std::vector<double>& mine);

// How often, by counts that all ranks share.
struct CollectiveRules {
    int warmup = 5; // as in CS336's study
    int repeats = 20;
    double limit_s = 10; // fewer repeats, from 3 on, where they would take longer
};

// Seconds of `work`, begun by all at once, until the slowest rank has done it: a number a repeat.
std::vector<double> slowest_seconds(Ranks& ranks, Collectives& collectives, const CollectiveRules& rules,
                                    const std::function<void()>& work);

} // namespace hw4::bench
