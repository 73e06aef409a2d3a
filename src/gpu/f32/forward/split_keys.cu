// split_keys: the problems that it takes, and the launch for their element.
#include "src/gpu/f32/forward/split_keys.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "src/gpu/f32/forward/split_work.h"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {
namespace {

// Few query rows per head, which would leave most of a tile of rows, or most of the GPU, empty; and keys to split.
bool pays(const Problem& problem, const Device& device) {
    constexpr int64_t kLeastKeys = 4 * kSegmentKeys;
    constexpr int64_t kMostQueries = 64;
    constexpr int64_t kFewQueries = 16;
    return problem.keys >= kLeastKeys && problem.queries <= kMostQueries &&
           (problem.queries <= kFewQueries || 2 * problem.units() <= device.multiprocessors);
}

} // namespace

Plan plan_split_keys(const Problem& problem, const Device& device) {
    Plan plan = problem.element == Element::float32 ? split::plan<float>(problem, device)
                : problem.element == Element::bf16  ? split::plan<__nv_bfloat16>(problem, device)
                                                    : split::plan<__half>(problem, device);
    plan.pays = problem.by_lengths || pays(problem, device);
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
