// The command line of hw4.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/run/case_options.h"
#include "src/run/engine.h"

namespace hw4 {

enum class Device { automatic, gpu, cpu };

struct Options : CaseOptions {
    Action action = Action::run;
    Device device = Device::automatic;
    EngineOptions engine;
    std::string kernel_file; // file name; empty: none
    std::optional<int> gpus; // divide a case over this many GPUs; 0: all; not set: one GPU
    bool time = false;
    bool sync = false;
    bool gather = false; // with several ranks only the first writes
    bool list_as_json = false;
    // Names of files; empty: none.
    std::string json;
    std::string trace;
    std::string pairs;            // a list of cases; - for standard input
    std::vector<CaseNames> cases; // without such a list

    // Whether there is more than one case, or could be.
    bool many() const { return cases.size() != 1; }
    // Whether the stages' times are asked for.
    bool timed() const { return time || !json.empty() || !trace.empty(); }
};

// Throw Error (usage).
Options parse_options(int argc, char** argv);
int parse_count(const char* option, const std::string& text, int most); // at least 1
Device parse_device(const std::string& name);

std::string help_text();

} // namespace hw4
