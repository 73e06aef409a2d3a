// Standard input, output and error, also where the caller has closed them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <string>

#include "src/base/error.h"
#include "src/base/file_descriptor.h"

namespace hw4 {

// The file name "-" means standard input, or standard output for an output. A file of that name is ./-.
inline bool is_standard_stream(const std::string& name) { return name == "-"; }

// Names for messages.
inline std::string shown_input(const std::string& name) { return is_standard_stream(name) ? "standard input" : name; }
inline std::string shown_output(const std::string& name) { return is_standard_stream(name) ? "standard output" : name; }

// The same open stream under a new descriptor, which may be closed like a file's. Not valid where it fails; see errno.
inline FileDescriptor duplicate_of(int stream) {
    return FileDescriptor(::fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

// The first file that a program opens gets the lowest free descriptor. Where standard error is closed that may be the
// output, and every message would be written into it. So each closed standard stream is replaced here, before anything
// is opened, by a directory: reading, writing and opening /dev/stdout still fail as before.
inline void occupy_closed_streams() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (::fcntl(fd, F_GETFD) < 0) (void)::open("/", O_RDONLY | O_DIRECTORY);
}

// Call at the end of a program: throws Error (io_error) if any line since its start could not be written.
inline void flush_standard_output() {
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        throw Error(ExitCode::io_error, with_errno("cannot write to standard output"));
}

// Runs a program: returns the exit code of `body`, or prints one line and returns the code of what it throws.
inline int run_program(const char* name, const std::function<int()>& body) {
    const auto fail = [&](ExitCode code, const char* message) {
        std::fprintf(stderr, "%s: %s\n", name, message);
        return static_cast<int>(code);
    };
    occupy_closed_streams();
    try {
        const int code = body();
        flush_standard_output();
        return code;
    } catch (const Error& error) {
        return fail(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return fail(ExitCode::out_of_memory, "out of memory");
    } catch (const std::exception& error) {
        return fail(ExitCode::internal, error.what());
    }
}

} // namespace hw4
