// For messages of programs that let getopt_long() say nothing itself.
#pragma once

#include <unistd.h>

#include <string>

namespace hw4 {

// The option that getopt_long() has just refused, as the user wrote it; among several letters in one word, which it has
// not passed yet, the letter.
inline std::string refused_option(char** argv) {
    const std::string word = argv[optind - 1];
    return word[0] == '-' ? word : std::string{'-', static_cast<char>(optopt)};
}

} // namespace hw4
