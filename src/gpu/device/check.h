// Every CUDA call goes through one of the macros below.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <string>

#include "src/base/error.h"

namespace hw4::gpu {

// The error that a test asks for in the place of the next CUDA call; cudaSuccess: none. The program has fault.cu, the
// library never fails a call by itself.
cudaError_t due_fault();

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
    if (status == cudaSuccess) return;
    static_cast<void>(cudaGetLastError()); // or the next launch would report this error once more
    throw Error(exit_code_of(status), describe(status, call, file, line));
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
    [&] {                                                                                                              \
        const cudaError_t hw4_fault = ::hw4::gpu::due_fault();                                                         \
        return hw4_fault != cudaSuccess ? hw4_fault : (call);                                                          \
    }()
#define HW4_CUDA(call) ::hw4::gpu::check(HW4_CUDA_STATUS(call), #call, __FILE__, __LINE__)
#define HW4_CUDA_NOEXCEPT(call) ::hw4::gpu::report((call), #call, __FILE__, __LINE__)
// Straight after <<<...>>>: a launch returns its error only when asked.
#define HW4_CUDA_LAUNCHED(kernel)                                                                                      \
    ::hw4::gpu::check(HW4_CUDA_STATUS(cudaGetLastError()), "launch of " kernel, __FILE__, __LINE__)
