// Words of a command line that are not known: what to say of them, where getopt_long() says nothing itself, and which
// known name was probably meant.
#pragma once

#include <getopt.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hw4 {

// How many letters to insert, delete, replace or swap with their neighbour turn one word into the other.
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

// " (did you mean NAME?)", of the first of the closest names; empty where more than a third of the letters differ.
inline std::string did_you_mean(const std::string& word, const std::vector<std::string>& names,
                                const std::string& prefix = "") {
    std::string closest;
    size_t least = word.size();
    for (const std::string& name : names) {
        const size_t most = std::max(word.size(), name.size()) / 3;
        if (word.size() > name.size() + most) continue; // so that a very long word takes no memory
        const size_t distance = edit_distance(word, name);
        if (distance > most || distance >= least) continue;
        closest = name;
        least = distance;
    }
    return closest.empty() ? "" : " (did you mean " + prefix + closest + "?)";
}

constexpr int kLong = 256; // codes of long options begin here, so that a letter is told from them

// The option that getopt_long() has just refused: a letter, which may be one of several in a word that is not passed
// yet, or else the word before, a long option. It leaves the letter or the code in optopt, 0 for an unknown long one.
inline std::string refused_option(char** argv) {
    if (optopt > 0 && optopt < kLong) return {'-', static_cast<char>(optopt)};
    return argv[optind - 1];
}

// Why getopt_long(), whose letters begin with ':', has just returned `code`, ':' or '?'.
inline std::string why_refused(int code, char** argv, const option* options) {
    const std::string given = refused_option(argv);
    if (code == ':') return "option '" + given + "' needs a value";
    if (optopt >= kLong) return "option '" + given + "' takes no value";
    std::string meant;
    if (optopt == 0) {
        std::vector<std::string> names;
        for (const option* known = options; known->name != nullptr; ++known) names.emplace_back(known->name);
        meant = did_you_mean(given.substr(2, given.find('=') - 2), names, "--");
    }
    return "unknown or ambiguous option '" + given + "'" + meant;
}

} // namespace hw4
