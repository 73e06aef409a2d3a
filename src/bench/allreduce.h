// The all-reduce of CS336's study of collectives: adds up a float32 vector over ranks, by size and by library, with the
// columns of nccl-tests.
#pragma once

#include <string>
#include <vector>

#include "src/bench/rank_group.h"
#include "src/bench/summation.h"

namespace hw4::bench {

struct AllreduceCell {
    Via via = Via::mpi;
    int64_t bytes = int64_t{1} << 20;
    // The ranks divide them, at least one each: 1, 2, 4 or 8 ranks add up the same numbers.
    int contributions = 8;
    CollectiveRules rules;

    size_t count() const { return static_cast<size_t>(bytes) / sizeof(float); }
};

struct AllreduceRow {
    AllreduceCell cell;
    RankGroup group;
    Outcome outcome;
    std::string path;            // from Summation
    std::vector<double> seconds; // until the slowest rank is done
    int64_t wrong = 0;           // over all ranks' results
    std::string crc32;           // of the first rank's result
    bool same_on_all = true;     // over all ranks, byte for byte

    // A single rank sends nothing.
    bool has_bandwidth() const { return outcome.status == Status::ok && group.ranks > 1; }
    // 1e9 bytes a second: of the vector; and of each link at best, 2 (n - 1) / n of the vector.
    double algorithm_bandwidth() const;
    double bus_bandwidth() const;
};

// Called by all ranks. `group` tells where the vectors are.
AllreduceRow measure_allreduce(const AllreduceCell& cell, const RankGroup& group, Ranks& ranks,
                               Collectives& collectives);

std::string allreduce_head(const RankGroup& group);
std::string allreduce_line(const AllreduceRow& row);
std::string allreduce_json(const AllreduceRow& row); // an object

} // namespace hw4::bench
