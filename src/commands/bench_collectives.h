// hw4 bench allreduce and hw4 bench step: their command lines, and their execution by ranks.
#pragma once

#include <string>
#include <vector>

#include "src/bench/step.h"
#include "src/bench/summation.h"
#include "src/commands/options.h"
#include "src/ranks/ranks.h"

namespace hw4::bench {

// A measurement by several ranks.
struct CollectiveRequest {
    Action action = Action::run;
    Device device = Device::automatic;
    std::vector<int> warmups;
    CollectiveRules rules; // except for the warm-ups
    std::string output;    // JSON; a file's name, or - for standard output; empty: none
    std::string memory;    // a snapshot; empty: none
    bool quiet = false;
};

struct AllreduceRequest : CollectiveRequest {
    std::vector<int64_t> sizes; // bytes
    std::vector<Via> vias = {Via::mpi};
};

// Options for a table of the course.
struct StepPreset {
    const char* name;
    const char* idea;
    std::string options; // the user's replace them
};
const std::vector<StepPreset>& step_presets();

struct StepRequest : CollectiveRequest {
    std::vector<const step::Preset*> models;
    std::vector<const Contract*> contracts = {&kF32};
    std::vector<int64_t> seq_lens; // empty: the model's
    std::vector<StepAttention> attentions = {StepAttention::ours};
    std::vector<step::SyncWay::Kind> ways; // for several ranks
    std::vector<int64_t> buckets;          // bytes
    std::vector<bool> shards = {false};
    int64_t batch_size = 4;
    int64_t micro_batch = 0;
    bool operations = false;
    bool one_rank = false; // one rank too, before several
    int threads = 0;

    std::vector<StepCell> cells(int ranks) const;
};

// argv[0] is ignored. Throw Error (usage).
AllreduceRequest parse_allreduce(int argc, char** argv);
StepRequest parse_step(int argc, char** argv);

} // namespace hw4::bench

namespace hw4 {

// Called by all ranks; the first one prints and writes the results. Throws Error.
ExitCode run_allreduce(const bench::AllreduceRequest& request, std::vector<std::string> argv, Ranks& ranks);
ExitCode run_step(const bench::StepRequest& request, std::vector<std::string> argv, Ranks& ranks);

} // namespace hw4
