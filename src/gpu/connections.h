// How many queues of work the CUDA driver sets up between the host and the GPU.
#pragma once

#include <cstdlib>

#include "../error.h"

namespace hw4::gpu {

// The driver makes eight of them for each engine of the card with every context, and takes them down at the end,
// whether a program uses them or not: on an H200 that is 100 of the 310 ms of a process that does nothing else. A run
// of hw4 feeds the GPU from one thread, and copies and kernels of different streams overlap through a single queue just
// as well, since each engine has its own. Whoever has set the variable knows better.
//
// To be called before the first CUDA call, which reads the environment, and before there are other threads, which may
// read it at the same time.
inline void ask_for_one_connection() {
    constexpr bool kOverwrite = false;
    if (::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", kOverwrite) != 0)
        throw Error(ExitCode::out_of_memory, with_errno("cannot set CUDA_DEVICE_MAX_CONNECTIONS"));
}

} // namespace hw4::gpu
