// Parses a command line: options, the handling of their values, and the messages about unknown words.
#pragma once

#include <getopt.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "src/base/error.h"

namespace hw4 {

// Throws Error (usage), which names --help.
[[noreturn]] void usage_error(const std::string& what);
// Makes an error that names --help name that of a command such as "hw4 train".
void name_command(Error& error, const std::string& command);
// Runs a command; its errors name its --help.
template <class Work>
auto within_command(const std::string& command, const Work& work) {
    try {
        return work();
    } catch (Error& error) {
        name_command(error, command);
        throw; // of the same type
    }
}
// Refuses the value of an option while take_options() takes it, like any other error of the command line.
[[noreturn]] void refuse_value(const std::string& option, const std::string& text, const std::string& need);

enum class Action { run, help, version, list_kernels };

// An option of a command: its name (with - for _ too), whether it has a value, in getopt_long()'s terms, and the
// function that takes the value.
struct CommandOption {
    std::string name;
    int has_value;
    std::function<void(const char* value)> take;
    std::function<bool()> take_none = {}; // for a missing value; false, or empty: wrong usage
};

inline CommandOption flag(const char* name, bool& set) {
    return {name, no_argument, [&set](const char*) { set = true; }};
}

// Takes the options of the list, and --help and --version, which return at once: later words are not parsed. Leaves
// optind at the first word that is not an option. `refuse` throws.
Action take_options(int argc, char** argv, const std::vector<CommandOption>& list,
                    void (*refuse)(const std::string& what) = usage_error);

// Splits text at the separators; keeps empty words.
std::vector<std::string> split(const std::string& text, char separator);

// The number of letters to insert, delete, replace or swap with their neighbour to turn one word into the other.
inline size_t edit_distance(const std::string& a, const std::string& b) {
    // steps[i][j]: between the first i letters of a and the first j of b
    std::vector<std::vector<size_t>> steps(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i)
        for (size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                steps[i][j] = i + j;
                continue;
            }
            const size_t replaced = steps[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            steps[i][j] = std::min({replaced, steps[i - 1][j] + 1, steps[i][j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
        }
    return steps[a.size()][b.size()];
}

// " (did you mean NAME?)", for the first of the closest names; empty where more than a third of the letters differ.
inline std::string did_you_mean(const std::string& word, const std::vector<std::string>& names,
                                const std::string& prefix = "") {
    std::string closest;
    size_t least = word.size();
    for (const std::string& name : names) {
        const size_t most = std::max(word.size(), name.size()) / 3;
        if (word.size() > name.size() + most) continue; // a very long word must not take memory
        const size_t distance = edit_distance(word, name);
        if (distance > most || distance >= least) continue;
        closest = name;
        least = distance;
    }
    return closest.empty() ? "" : " (did you mean " + prefix + closest + "?)";
}

} // namespace hw4
