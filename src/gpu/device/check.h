// Every CUDA call goes through one of the macros below.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <string>

#include "src/base/error.h"

namespace hw4::gpu {

// The error that a test requests in place of the next CUDA call; cudaSuccess: none. The program takes it from fault.cu;
// in the library it is always cudaSuccess.
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

// The file's path from the repository's root.
constexpr const char* source_name(const char* file) { return file[0] == '.' && file[1] == '/' ? file + 2 : file; }

inline std::string describe(cudaError_t status, const char* call, const char* file, int line) {
    return std::string(cudaGetErrorName(status)) + " (" + cudaGetErrorString(status) + ") from " + call + " at " +
           source_name(file) + ":" + std::to_string(line);
}

inline void check(cudaError_t status, const char* call, const char* file, int line) {
    if (status == cudaSuccess) return;
    static_cast<void>(cudaGetLastError()); // clears the error; otherwise the next launch would report it again
    throw Error(exit_code_of(status), describe(status, call, file, line));
}

// Destructors must not throw: this reports the failure, and the program goes on. While an exception is being
// thrown it is silent: the context is broken then, and every destructor would repeat the message.
inline void report(cudaError_t status, const char* call, const char* file, int line) noexcept {
    if (status != cudaSuccess && std::uncaught_exceptions() == 0)
        std::fprintf(stderr, "hw4: %s from %s at %s:%d\n", cudaGetErrorName(status), call, source_name(file), line);
}

} // namespace hw4::gpu

// The status of the call, or of a fault that replaces it.
#define HW4_CUDA_STATUS(call)                                                                                          \
    [&] {                                                                                                              \
        const cudaError_t hw4_fault = ::hw4::gpu::due_fault();                                                         \
        return hw4_fault != cudaSuccess ? hw4_fault : (call);                                                          \
    }()
#define HW4_CUDA(call) ::hw4::gpu::check(HW4_CUDA_STATUS(call), #call, __FILE__, __LINE__)
#define HW4_CUDA_NOEXCEPT(call) ::hw4::gpu::report((call), #call, __FILE__, __LINE__)
// Directly after <<<...>>>: a launch reports its error only when asked.
#define HW4_CUDA_LAUNCHED(kernel)                                                                                      \
    ::hw4::gpu::check(HW4_CUDA_STATUS(cudaGetLastError()), "launch of " kernel, __FILE__, __LINE__)
