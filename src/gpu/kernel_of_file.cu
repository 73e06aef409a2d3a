#include <algorithm>

#include "src/contracts/scale.h"
#include "src/gpu/device/check.h"
#include "src/gpu/kernels.h"

namespace hw4::gpu {
namespace {

template <class InOrOut>
InOrOut floats_of(const Tensor& tensor) {
    return {static_cast<float*>(tensor.data), tensor.row, tensor.head, tensor.batch};
}

// A launch of some query rows is given to the file as a launch with that many queries.
Hw4Launch launch_for_file(const Launch& launch) {
    const Problem& problem = launch.problem;
    const VisibleKeys sight = sight_of(problem.mask, problem.queries, problem.keys);
    Hw4Launch given{};
    given.batches = problem.batches;
    given.queries = launch.queries();
    given.keys = problem.keys;
    given.dim = problem.dim;
    given.heads = problem.heads;
    given.kv_heads = problem.kv_heads;
    given.first_seen = sight.first + launch.first_query * sight.more;
    given.more_seen = sight.more;
    given.q = floats_of<Hw4Input>(launch.in[0].from_row(launch.first_query));
    given.k = floats_of<Hw4Input>(launch.in[1]);
    given.v = floats_of<Hw4Input>(launch.in[2]);
    given.out = floats_of<Hw4Output>(launch.out[0].from_row(launch.first_query));
    given.scratch = launch.scratch;
    given.capability = launch.device.arch;
    given.shared_bytes = static_cast<int32_t>(launch.device.shared_bytes);
    return given;
}

Plan plan_file(const Hw4Kernel& file, const Problem& problem, const Device& device) {
    Plan plan;
    if (problem.heads > 1 && (file.knows & HW4_KNOWS_HEADS) == 0)
        plan.why_not = "takes one head, this case has " + std::to_string(problem.heads);
    else if (!is_usual_scale(problem.dim, problem.scale))
        plan.why_not = "takes the scale 1/sqrt(d) alone";
    else if (problem.is_padded())
        plan.why_not = "takes V of as many columns as K alone";
    if (!plan.why_not.empty() || file.scratch_bytes == nullptr) return plan;
    Launch sizes;
    sizes.problem = problem;
    sizes.device = device;
    const Hw4Launch given = launch_for_file(sizes);
    plan.scratch_bytes = file.scratch_bytes(&given);
    return plan;
}

void launch_file(const Hw4Kernel& file, const Launch& launch, cudaStream_t stream) {
    Hw4Launch given = launch_for_file(launch);
    given.stream = stream;
    const auto status = static_cast<cudaError_t>(file.launch(&given));
    check(HW4_CUDA_STATUS(status), ("launch of " + std::string(file.name)).c_str(), __FILE__, __LINE__);
}

} // namespace

Kernel kernel_of_file(const Hw4Kernel& file) {
    if (find_kernel(file.name) != nullptr)
        throw Error(ExitCode::usage, "the kernel file's kernel is named '" + std::string(file.name) +
                                         "', as one of --list-kernels; need a name of its own");
    Needs needs;
    needs.arch = file.least_capability;
    needs.has_own_code = true;
    needs.most_dim = std::min<int64_t>(file.most_dim, kMostColumns);
    if ((file.knows & HW4_KNOWS_CAUSAL) != 0) needs.masks = kEveryMask;
    return {file.name,
            file.idea == nullptr ? "" : file.idea,
            &kForward,
            &kF32,
            needs,
            [&file](const Problem& problem, const Device& device) { return plan_file(file, problem, device); },
            [&file](const Launch& launch, cudaStream_t stream) { launch_file(file, launch, stream); }};
}

} // namespace hw4::gpu
