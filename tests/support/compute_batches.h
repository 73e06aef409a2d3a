// Runs a CPU kernel on whole batches in the layout of a file, with its own workspace.
#pragma once

#include "src/cpu/aligned_memory.h"
#include "src/cpu/kernels.h"

namespace hw4::cpu {

inline void compute_batches(const Kernel& kernel, const Problem& problem, const void* in, void* out, int threads,
                            RowStatistics* statistics = nullptr) {
    const size_t bytes = plan_of(kernel, problem, threads).scratch_bytes;
    const AlignedMemory scratch = bytes == 0 ? nullptr : allocate_bytes(bytes);
    Launch launch = launch_of(problem, in, out, scratch.get(), threads);
    launch.statistics = statistics;
    kernel.launch(launch);
}

} // namespace hw4::cpu
