#include "src/step/heads.h"

#include <new>

#include "src/base/error.h"
#include "src/cpu/kernels.h"

namespace hw4::step {

void compute_heads(Team& team, Room& scratch, const Problem& problem, const float* in, const float* forward_out,
                   RowStatistics* statistics, float* out) {
    const cpu::Kernel& kernel = cpu::choose_kernel("", problem, kF32);
    const size_t bytes = cpu::plan_of(kernel, problem, team.threads()).scratch_bytes;
    float* const memory = scratch.of(static_cast<int64_t>(bytes / sizeof(float)) + 1);
    cpu::Launch launch = cpu::launch_of(problem, in, out, memory, team.threads());
    launch.crew = &team.crew();
    launch.statistics = statistics;
    if (forward_out != nullptr)
        launch.forward_out = tensor_at(problem, kForward.outputs, 0, forward_out, static_cast<size_t>(problem.dim));
    try {
        kernel.launch(launch);
    } catch (const std::bad_alloc&) {
        throw Error(ExitCode::out_of_memory, "attention of a training step lacks host memory");
    }
}

} // namespace hw4::step
