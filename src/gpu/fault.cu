// HW4_FAIL_CUDA_CALL=k in the environment: the k-th checked CUDA call of the process is skipped and counts as failed
// with cudaErrorUnknown, or with error e for k:e (2 is cudaErrorMemoryAllocation). It is in every build of the program,
// so that the tests run the program that users have; without the variable it is one comparison per call.
#include <atomic>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "src/base/numbers.h"
#include "src/gpu/device/check.h"

namespace hw4::gpu {
namespace {

struct Fault {
    int64_t call = 0; // 0: none fails
    cudaError_t error = cudaErrorUnknown;
};

// No fault if the text does not have that form.
Fault fault_of(std::string_view text) {
    Fault fault;
    const size_t colon = text.find(':');
    const auto call = whole_number(text.substr(0, colon), 1, std::numeric_limits<int64_t>::max());
    if (!call) return {};
    fault.call = *call;
    if (colon == std::string_view::npos) return fault;
    const auto error = whole_number(text.substr(colon + 1), 1, std::numeric_limits<int>::max());
    if (!error) return {};
    fault.error = static_cast<cudaError_t>(*error);
    return fault;
}

Fault planned() {
    const char* const text =
        std::getenv("HW4_FAIL_CUDA_CALL"); // NOLINT(concurrency-mt-unsafe): the program never sets it
    return text == nullptr ? Fault{} : fault_of(text);
}

} // namespace

cudaError_t due_fault() {
    static const Fault fault = planned();
    static std::atomic<int64_t> calls{0};
    return fault.call > 0 && ++calls == fault.call ? fault.error : cudaSuccess;
}

} // namespace hw4::gpu
