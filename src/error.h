// How a run fails: one line for the user and one of the exit codes that --help lists.
#pragma once

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace hw4 {

// The numbers are those of sysexits.h, clear of what shells and signals use.
enum class ExitCode : int {
    ok = 0,
    usage = 64,
    bad_data = 65,
    no_input = 66,
    no_gpu = 69,
    internal = 70,
    out_of_memory = 71,
    cannot_create = 73,
    io_error = 74,
};

// The same text in one line, whatever names from outside are in it: control characters, which could also steer the
// user's terminal, become \x0a and the like.
inline std::string one_line(const std::string& text) {
    std::string line;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        char shown[8] = {c};
        if (byte < 0x20 || byte == 0x7f) std::snprintf(shown, sizeof shown, "\\x%02x", byte);
        line += shown;
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
