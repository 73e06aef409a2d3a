// How many queues of work the CUDA driver sets up between the host and the GPU.
#pragma once

#include <cstdlib>

#include "../error.h"

namespace hw4::gpu {

// The driver makes eight with every context, and takes them down at the end, whether a program uses them or not: that
// is 90 of the 310 ms that a process on an H200 needs for a bare context. With one queue, work of different streams may
// wait where it need not: t22 takes 65 instead of 60 ms from the context on. Two queues would give most of that back,
// and take 13 ms more for the context. Whoever has set the variable knows better.
//
// To be called before the first CUDA call, which reads the environment, and before there are other threads, which may
// read it at the same time.
inline void ask_for_one_connection() {
    constexpr bool kOverwrite = false;
    if (::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", kOverwrite) != 0)
        throw Error(ExitCode::out_of_memory, with_errno("cannot set CUDA_DEVICE_MAX_CONNECTIONS"));
}

} // namespace hw4::gpu
