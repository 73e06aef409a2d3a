// For messages of programs that let getopt_long() say nothing itself.
#pragma once

#include <getopt.h>

#include <string>
#include <vector>

#include "src/base/did_you_mean.h"

namespace hw4 {

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
