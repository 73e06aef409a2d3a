// A kernel whose blocks take their places while the last blocks of the kernel before it in the stream are still at
// work (programmatic dependent launch, from compute capability 9.0 on).
#pragma once

#include "src/gpu/device/check.h"

namespace hw4::gpu {

// In every block of the kernel before: from when all of them have come here or ended, the next may begin.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// In every block of the next, whether it reads anything or not: until the kernel before has ended, and all it wrote can
// be read. What comes after the next kernel in the stream waits for that one only, and must find both ended. Before
// this call a block may read what was there when the kernel before began.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <class... Parameters, class... Arguments>
void launch_early(const char* what, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                  size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    check(HW4_CUDA_STATUS(cudaLaunchKernelEx(&config, kernel, arguments...)), what, __FILE__, __LINE__);
}

} // namespace hw4::gpu
