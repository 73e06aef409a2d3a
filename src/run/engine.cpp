#include "src/run/engine.h"

#include <algorithm>

#include "src/base/error.h"

namespace hw4 {
namespace {
constexpr size_t kChunkInputBytes = size_t{8} << 20;
}

void refuse_other_arithmetic(const std::string& kernel, Arithmetic of_kernel, Arithmetic asked) {
    if (of_kernel != asked)
        throw Error(ExitCode::usage,
                    "kernel '" + kernel + "' computes " + name_of(of_kernel) + ", not " + name_of(asked));
}

int64_t chunk_batches_for(const Shape& shape, int parts) {
    const auto fitting = static_cast<int64_t>(kChunkInputBytes / shape.batch_input_bytes());
    const int64_t share = (shape.batches + parts - 1) / parts;
    return std::clamp<int64_t>(fitting, 1, share);
}

} // namespace hw4
