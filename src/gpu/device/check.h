// Every CUDA call goes through one of the macros below.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <string_view>

#include "src/base/error.h"
#include "src/base/numbers.h"

namespace hw4::gpu {

// ---- HW4_FAIL_CUDA_CALL=k in the environment: the k-th checked CUDA call of the process is not made and counts as
// failed, with cudaErrorUnknown, or with error e where it says k:e (2 is cudaErrorMemoryAllocation). In every build, so
// that the tests see the program that users have; without the variable it is one comparison a call.

struct Fault {
    int64_t call = 0; // 0: none is to fail
    int error = 999;  // cudaErrorUnknown
};

// None where the text is not of that form.
inline Fault fault_of(std::string_view text) {
    Fault fault;
    const size_t colon = text.find(':');
    const auto call = whole_number(text.substr(0, colon), 1, std::numeric_limits<int64_t>::max());
    if (!call) return {};
    fault.call = *call;
    if (colon == std::string_view::npos) return fault;
    const auto error = whole_number(text.substr(colon + 1), 1, std::numeric_limits<int>::max());
    if (!error) return {};
    fault.error = static_cast<int>(*error);
    return fault;
}

inline const Fault& planned_fault() {
    static const char* const text = std::getenv("HW4_FAIL_CUDA_CALL");
    static const Fault fault = text == nullptr ? Fault{} : fault_of(text);
    return fault;
}

inline bool fault_due() {
    static const int64_t failing = planned_fault().call;
    static std::atomic<int64_t> calls{0};
    return failing > 0 && ++calls == failing;
}

inline ExitCode exit_code_of(cudaError_t status) {
    switch (status) {
    case cudaErrorMemoryAllocation: return ExitCode::out_of_memory;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorDevicesUnavailable: return ExitCode::no_gpu;
    default: return ExitCode::internal;
    }
}

// As it is named from the root.
constexpr const char* source_name(const char* file) { return file[0] == '.' && file[1] == '/' ? file + 2 : file; }

inline std::string describe(cudaError_t status, const char* call, const char* file, int line) {
    return std::string(cudaGetErrorName(status)) + " (" + cudaGetErrorString(status) + ") from " + call + " at " +
           source_name(file) + ":" + std::to_string(line);
}

inline void check(cudaError_t status, const char* call, const char* file, int line) {
    if (status != cudaSuccess) throw Error(exit_code_of(status), describe(status, call, file, line));
}

// For destructors, which must not throw: a failure there is said and the program goes on. While an error is on its
// way out it is silent: the context is broken then, and every destructor would repeat it.
inline void report(cudaError_t status, const char* call, const char* file, int line) noexcept {
    if (status != cudaSuccess && std::uncaught_exceptions() == 0)
        std::fprintf(stderr, "hw4: %s from %s at %s:%d\n", cudaGetErrorName(status), call, source_name(file), line);
}

} // namespace hw4::gpu

// The call's status, or that of a fault in its place.
#define HW4_CUDA_STATUS(call)                                                                                          \
    (::hw4::gpu::fault_due() ? static_cast<cudaError_t>(::hw4::gpu::planned_fault().error) : (call))
#define HW4_CUDA(call) ::hw4::gpu::check(HW4_CUDA_STATUS(call), #call, __FILE__, __LINE__)
#define HW4_CUDA_NOEXCEPT(call) ::hw4::gpu::report((call), #call, __FILE__, __LINE__)
// Straight after <<<...>>>: a launch returns its error only when asked.
#define HW4_CUDA_LAUNCHED(kernel)                                                                                      \
    ::hw4::gpu::check(HW4_CUDA_STATUS(cudaGetLastError()), "launch of " kernel, __FILE__, __LINE__)
