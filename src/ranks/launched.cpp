#include "src/ranks/launched.h"

#include <limits>

#include "src/base/numbers.h"

namespace hw4 {
namespace {

// The number of started processes. The launcher nearest to the process comes first: mpirun starts its daemons by srun.
constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

} // namespace

Launched launched_as(const Environment& environment) {
    for (const char* variable : kVariables) {
        const char* const text = environment(variable);
        const auto tasks = whole_number(text == nullptr ? "" : text, 1, std::numeric_limits<int>::max());
        if (tasks) return {static_cast<int>(*tasks), variable};
    }
    return {};
}

Launched launched_as() {
    return launched_as([](const char* name) { return std::getenv(name); }); // NOLINT(concurrency-mt-unsafe)
}

std::string alone_among(const Launched& launched, const std::string& why) {
    return "started as " + std::to_string(launched.tasks) + " tasks (" + launched.variable +
           "), which would race for the output: " + why + "; by itself: env -u " + launched.variable + " hw4 ...";
}

} // namespace hw4
