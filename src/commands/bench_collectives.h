// hw4 bench allreduce and hw4 bench gradients: their command lines, and the ranks that run them.
#pragma once

#include <string>
#include <vector>

#include "src/bench/gradients.h"
#include "src/commands/options.h"
#include "src/ranks/ranks.h"

namespace hw4::bench {

// What several ranks measure together.
struct CollectiveRequest {
    Action action = Action::run;
    Device device = Device::automatic;
    std::vector<Via> vias = {Via::mpi};
    int contributions = 8;
    CollectiveRules rules;
    std::string output; // JSON; a file's name, or - for standard output; empty: none
    bool quiet = false;
};

struct AllreduceRequest : CollectiveRequest {
    std::vector<int64_t> sizes; // bytes
};

struct GradientsRequest : CollectiveRequest {
    std::vector<const Model*> models;
    std::vector<SyncWay::Kind> ways = {SyncWay::Kind::naive, SyncWay::Kind::flat, SyncWay::Kind::overlapped};
    std::vector<int64_t> buckets; // bytes
    int64_t batch_size = 8;
    int64_t seq_len = 512;
    int threads = 0;
};

// argv[0] is not looked at. Throw Error (usage).
AllreduceRequest parse_allreduce(int argc, char** argv);
GradientsRequest parse_gradients(int argc, char** argv);

} // namespace hw4::bench

namespace hw4 {

// Called by all ranks, of which the first says and writes what comes of it. Throws Error.
ExitCode run_allreduce(const bench::AllreduceRequest& request, std::vector<std::string> argv, Ranks& ranks);
ExitCode run_gradients(const bench::GradientsRequest& request, std::vector<std::string> argv, Ranks& ranks);

} // namespace hw4
