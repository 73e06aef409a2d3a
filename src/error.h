// How a run fails: one line for the user and one of the exit codes that --help lists.
#pragma once

#include <cerrno>
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

class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ExitCode code() const { return code_; }

private:
    ExitCode code_;
};

// "what: No such file or directory", for a failed system call.
inline std::string with_errno(const std::string& what) { return what + ": " + std::strerror(errno); }

} // namespace hw4
