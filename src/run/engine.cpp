#include "src/run/engine.h"

#include <algorithm>

#include "src/base/error.h"

namespace hw4 {
namespace {
constexpr size_t kChunkInputBytes = size_t{8} << 20;
}

void refuse_other_contract(const std::string& kernel, const Contract& of_kernel, const Contract& asked) {
    if (&of_kernel != &asked)
        throw Error(ExitCode::usage, "kernel '" + kernel + "' computes " + of_kernel.name + ", not " + asked.name);
}

int64_t chunk_batches_for(const Problem& problem, int parts) {
    const auto fitting = static_cast<int64_t>(kChunkInputBytes / problem.batch_input_bytes());
    const int64_t share = (problem.batches + parts - 1) / parts;
    return std::clamp<int64_t>(fitting, 1, share);
}

} // namespace hw4
