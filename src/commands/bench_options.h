// The command lines of hw4 bench, except for several ranks (bench_collectives.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bench/sweep.h"
#include "src/commands/options.h"

namespace hw4::bench {

struct Request {
    Action action = Action::run;
    Device device = Device::automatic;
    Sweep sweep;
    std::optional<std::vector<Pass>> passes; // none: all, or forward for a decoding step
    std::string output;                      // JSON; a file's name, or - for standard output; empty: none
    std::string csv;                         // like output
    std::string memory;                      // memory over time; a file's name; empty: none
    std::string kernel_file;                 // for one more kernel; empty: none
    bool quiet = false;
};

// argv[0] is ignored. Throws Error (usage).
Request parse_request(int argc, char** argv);

struct AccumulateRequest {
    Action action = Action::run;
    Device device = Device::automatic;
    std::string output; // JSON; empty: none
};
AccumulateRequest parse_accumulate(int argc, char** argv);

struct StartUpRequest {
    Action action = Action::run;
};
StartUpRequest parse_start_up(int argc, char** argv);

// The text of --help.
std::string help_text();
std::string accumulate_help();
std::string start_up_help();
std::string allreduce_help();
std::string step_help();

} // namespace hw4::bench
