// The command line of hw4.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/io/array_names.h"
#include "src/run/engine.h"

namespace hw4 {

enum class Action { run, help, version, list_kernels };
enum class Device { automatic, gpu, cpu };

struct CaseNames {
    std::string input;
    std::string output;
};

struct Options {
    Action action = Action::run;
    Device device = Device::automatic;
    EngineOptions engine;
    std::string kernel_file;              // file name; empty: none
    bool causal = false;                  // whatever the headers say
    const Operation* operation = nullptr; // asked for; null: what the headers say
    std::optional<std::vector<int>> gpus; // these cards, each with a share; empty: all; none: one, as ever
    bool time = false;
    bool sync = false;
    bool gather = false; // of several ranks only the first writes
    bool list_as_json = false;
    std::string lse;              // likewise
    std::string json;             // likewise
    std::string trace;            // likewise
    std::string pairs;            // likewise, of cases; - for standard input
    std::vector<CaseNames> cases; // where there is no such file
    ArrayNames arrays;            // or the only case is these, and its input the list of their names

    // Whether there is more than one case, or might be.
    bool many() const { return cases.size() != 1; }
    // Of one case: a file for all operands, or one for each.
    std::vector<std::string> inputs() const {
        return arrays.given() ? arrays.inputs() : std::vector<std::string>{cases.front().input};
    }
    // The same for its outputs.
    std::vector<std::string> outputs() const {
        const std::vector<std::string> gradients = arrays.gradients();
        return gradients.empty() ? std::vector<std::string>{cases.front().output} : gradients;
    }
};

// Throws Error (usage).
Options parse_options(int argc, char** argv);

std::string help_text();

} // namespace hw4
