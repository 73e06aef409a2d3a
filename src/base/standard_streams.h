// Standard input, output and error, whichever of them the caller has closed.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace hw4 {

// The first file that a program opens gets the lowest free number. Where standard error is closed that may be the
// output, and every message would be written into it. So whatever is closed is taken here, before anything is opened,
// by a directory: neither reading nor writing works, as before, nor does opening /dev/stdout.
inline void occupy_closed_streams() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (::fcntl(fd, F_GETFD) < 0) (void)::open("/", O_RDONLY | O_DIRECTORY);
}

} // namespace hw4
