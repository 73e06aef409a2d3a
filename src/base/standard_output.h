// What was printed has to arrive.
#pragma once

#include <cstdio>

#include "src/base/error.h"

namespace hw4 {

// At the end of a program: throws Error (io_error) when a line since its start was not taken.
inline void flush_standard_output() {
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        throw Error(ExitCode::io_error, with_errno("cannot write to standard output"));
}

} // namespace hw4
