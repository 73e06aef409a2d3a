// The number of work queues that the CUDA driver creates between the host and the GPU.
#pragma once

#include <cstdlib>
#include <string>

#include "src/base/error.h"

namespace hw4::gpu {

namespace connections {

constexpr const char* kCompute = "CUDA_DEVICE_MAX_CONNECTIONS"; // copies too, if they have no number of their own
constexpr const char* kCopy = "CUDA_DEVICE_MAX_COPY_CONNECTIONS";

inline void set_where_unset(const char* name, const char* value) {
    constexpr int kOverwrite = 0;
    if (::setenv(name, value, kOverwrite) != 0) // NOLINT(concurrency-mt-unsafe): there are no other threads yet
        throw Error(ExitCode::out_of_memory, with_errno(std::string("cannot set ") + name));
}

} // namespace connections

// The driver creates eight queues for kernels and eight for copies with every context, and destroys them at the end,
// whether a program uses them or not: that is 90 of the 310 ms that a process on an H200 needs for a bare context. Two
// and one are enough for four streams. With a single queue for kernels the copies of one stream wait for the kernels of
// another, since the events that mark their beginning go through it: t22 takes 65 instead of 56 ms after the context,
// which itself takes 61 instead of 64. Variables that the user has set are left alone.
//
// Call it before the first CUDA call, which reads the environment, and before there are other threads, which may read
// it at the same time.
inline void ask_for_few_connections() {
    if (std::getenv(connections::kCompute) != nullptr) return;
    connections::set_where_unset(connections::kCompute, "2");
    connections::set_where_unset(connections::kCopy, "1");
}

} // namespace hw4::gpu
