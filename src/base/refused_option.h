// For messages of programs that let getopt_long() say nothing itself.
#pragma once

#include <unistd.h>

#include <string>

namespace hw4 {

constexpr int kLong = 256; // codes of long options begin here, so that a letter is told from them

// The option that getopt_long() has just refused: a letter, which may be one of several in a word that is not passed
// yet, or else the word before, a long option. It leaves the letter or the code in optopt, 0 for an unknown long one.
inline std::string refused_option(char** argv) {
    if (optopt > 0 && optopt < kLong) return {'-', static_cast<char>(optopt)};
    return argv[optind - 1];
}

} // namespace hw4
