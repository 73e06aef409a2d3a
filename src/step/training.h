// A training run from file to file, which `hw4 train` and `seq train` share but for the machine that computes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/ranks/ranks.h"
#include "src/run/case_options.h"
#include "src/step/configuration.h"
#include "src/step/machine.h"

namespace hw4::step {

struct TrainingRequest {
    Action action = Action::run;
    std::string tokens;
    std::string checkpoint;
    std::string log; // empty: none
    const Preset* preset = nullptr;
    const Contract* contract = nullptr;
    std::map<std::string, std::string> given; // settings that options name, checked
    int token_bits = 16;
    int64_t micro_batch = 0; // 0: the whole batch
    int64_t save_every = 0;  // 0: at the end alone
    int64_t until = -1;      // -1: to the last step
    bool resume = false;
    bool shard = false; // the optimizer, over the ranks
};

// Sets what the options of settings say. Throws Error (usage).
void apply_given(const TrainingRequest& request, Configuration& settings);

// argv[0] is "train". `more`: options that one of the programs has alone. Throws Error (usage).
TrainingRequest parse_training(int argc, char** argv, const std::vector<CommandOption>& more);

// `more`: what --help says of these options, as lines.
std::string training_help(const std::string& program, const std::string& more);

using MakeMachine = std::function<std::unique_ptr<Machine>(const Contract& contract)>;

// Called by all ranks. The first rank prints the lines and writes the files. `threads` draw the initial weights. Throws
// Error, AgreedError where there are several ranks: after each failure CHECKPOINT is as the last save left it, and so
// is LOG, or it has the lines of the save that failed too.
void run_training(const TrainingRequest& request, const std::string& program, int threads, Ranks& ranks,
                  const MakeMachine& make_machine);

// seq train. `version`: what --version prints. Throws Error.
void train_by_reference(int argc, char** argv, const std::string& version);

} // namespace hw4::step
