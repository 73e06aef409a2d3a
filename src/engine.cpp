#include "engine.h"

#include <algorithm>

#include "domain.h"

namespace hw4 {
namespace {
constexpr size_t kChunkInputBytes = size_t{16} << 20;
}

int64_t chunk_batches_for(const Shape& shape) {
    const auto fitting = static_cast<int64_t>(kChunkInputBytes / shape.batch_input_bytes());
    return std::clamp<int64_t>(fitting, 1, shape.batches);
}

void read_checked(CaseReader& input, int64_t first_batch, int64_t count, float* to) {
    input.read_batches(count, to);
    check_domain(input.path(), input.shape(), first_batch, count, to);
}

} // namespace hw4
