// The command line of hw4.
#pragma once

#include <string>

#include "src/run/engine.h"

namespace hw4 {

enum class Action { run, help, version, list_kernels };
enum class Device { automatic, gpu, cpu };

struct Options {
    Action action = Action::run;
    Device device = Device::automatic;
    EngineOptions engine;
    bool time = false;
    bool sync = false;
    bool list_as_json = false;
    std::string json;  // file name; empty: none
    std::string trace; // likewise
    std::string input;
    std::string output;
};

// Throws Error (usage).
Options parse_options(int argc, char** argv);

std::string help_text();

} // namespace hw4
