#include "engine.h"

#include <algorithm>

#include "domain.h"

namespace hw4 {
namespace {
constexpr size_t kChunkInputBytes = size_t{16} << 20;
}

int64_t chunk_batches_for(const Shape& shape, int parts) {
    const auto fitting = static_cast<int64_t>(kChunkInputBytes / shape.batch_input_bytes());
    const int64_t share = (shape.batches + parts - 1) / parts;
    return std::clamp<int64_t>(fitting, 1, share);
}

void read_checked(CaseReader& input, int64_t first_batch, int64_t count, float* to) {
    const int64_t batch_rows = input.shape().batch_input_rows();
    input.read_rows(first_batch * batch_rows, count * batch_rows, to);
    DomainCheck(input.path(), input.shape()).examine(first_batch * batch_rows, count * batch_rows, to);
}

} // namespace hw4
