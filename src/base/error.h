// How a run fails: one line for the user and one of the exit codes that --help lists.
#pragma once

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "src/base/utf8.h"

namespace hw4 {

// The numbers are those of sysexits.h, clear of what shells and signals use, but for the answer of a comparison.
enum class ExitCode : int {
    ok = 0,
    slower = 1, // hw4 bench compare
    usage = 64,
    bad_data = 65,
    no_input = 66,
    no_gpu = 69,
    internal = 70,
    out_of_memory = 71,
    cannot_create = 73,
    io_error = 74,
};

// Control characters, in their 8-bit form too; line and paragraph separators; embeddings, overrides and isolates, which
// turn the direction of text.
inline bool steers_terminals(const Utf8Character& character) {
    const char32_t code = character.code;
    return !character.valid || code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

// \xe2\x80\xa8
inline std::string as_numbers(const std::string& bytes) {
    std::string numbers;
    for (const char c : bytes) {
        char number[8];
        std::snprintf(number, sizeof number, "\\x%02x", static_cast<unsigned char>(c));
        numbers += number;
    }
    return numbers;
}

// The same text in one line, whatever names from outside are in it: what could break the line or steer the user's
// terminal, and what is no text at all, becomes \x0a and the like, byte by byte.
inline std::string one_line(const std::string& text) {
    std::string line;
    for (size_t at = 0; at < text.size();) {
        const Utf8Character character = utf8_at(text, at);
        const std::string bytes = text.substr(at, character.size);
        line += steers_terminals(character) ? as_numbers(bytes) : bytes;
        at += character.size;
    }
    return line;
}

class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(one_line(message)), code_(code) {}
    ExitCode code() const { return code_; }

private:
    ExitCode code_;
};

// "what: No such file or directory", for a failed system call.
inline std::string with_errno(const std::string& what) {
    std::array<char, 128> text{}; // of its own: strerror()'s is shared by all threads
    return what + ": " + ::strerror_r(errno, text.data(), text.size());
}

} // namespace hw4
