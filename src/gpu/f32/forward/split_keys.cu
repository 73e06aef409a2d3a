// split_keys: the problems that it takes, and the launch for their element.
#include "src/gpu/f32/forward/split_keys.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "src/gpu/f32/forward/split_work.h"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {
namespace {

// Few query rows per head, which would leave most of a tile of rows, or most of the GPU, empty; and keys to split. One
// query row needs none: from 64 keys on, this kernel took 0.4 to 0.9 of the time of drawn_tiles on an H200.
bool pays(const Problem& problem, const Device& device) {
    constexpr int64_t kLeastKeys = 4 * kSegmentKeys; // for several query rows
    constexpr int64_t kMostQueries = 64;
    constexpr int64_t kFewQueries = 16;
    return (problem.keys >= kLeastKeys || problem.queries == 1) && problem.queries <= kMostQueries &&
           (problem.queries <= kFewQueries || 2 * problem.units() <= device.multiprocessors);
}

// Few heads with so few query rows that tiles of 64 rows would leave multiprocessors empty. Measured on an H200 at
// d = 64 and 128: while a block of tiles, alone on its multiprocessor, goes over one segment, a multiprocessor goes
// over about 4.4 segments of eight rows here; the launches take as long as 4 or 15 of these. With less shared memory
// fewer warps fit into a block, and with a window tiles compute the window alone.
bool fills_more(const Problem& problem, const Plan& plan, const Device& device) {
    constexpr double kSegmentsForATile = 4.4;
    constexpr int64_t kTileRows = 64, kUnitRows = 8;
    constexpr size_t kMostScratch = size_t{64} << 20, kSharedBytes = size_t{200} << 10;
    if (problem.dim <= 32 || problem.dim > 128 || problem.dim % 4 != 0 || problem.window > 0) return false;
    if (plan.scratch_bytes > kMostScratch || device.shared_bytes < kSharedBytes) return false;
    if (problem.units() * ((problem.queries + kTileRows - 1) / kTileRows) > device.multiprocessors) return false;
    const int64_t rows = problem.heads / problem.kv_heads * problem.queries;
    const int64_t units = problem.batches * problem.kv_heads * ((rows + kUnitRows - 1) / kUnitRows);
    const int64_t of_unit = split::segments_of(problem.keys);
    if (of_unit < 2) return false;
    const double each = static_cast<double>(units * of_unit) / device.multiprocessors;
    return each + (split::has_few_segments(of_unit) ? 4 : 15) < kSegmentsForATile * static_cast<double>(of_unit);
}

} // namespace

Plan plan_split_keys(const Problem& problem, const Device& device) {
    Plan plan = problem.element == Element::float32 ? split::plan<float>(problem, device)
                : problem.element == Element::bf16  ? split::plan<__nv_bfloat16>(problem, device)
                                                    : split::plan<__half>(problem, device);
    plan.pays = problem.by_lengths || pays(problem, device) || fills_more(problem, plan, device);
    return plan;
}

void launch_split_keys(const Launch& launch, cudaStream_t stream) {
    switch (launch.problem.element) {
    case Element::float32: return split::launch<float>(launch, stream);
    case Element::bf16: return split::launch<__nv_bfloat16>(launch, stream);
    case Element::fp16: return split::launch<__half>(launch, stream);
    }
}

} // namespace hw4::gpu
