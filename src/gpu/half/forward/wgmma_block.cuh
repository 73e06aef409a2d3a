// What blocks of wgmma's kernels in half precision have in common, forward and backward: panels of rows in shared
// memory, rings of stages, how they begin, and groups that multiply beside one that has everything copied.
#pragma once

#include <algorithm>

#include "src/gpu/common/barriers.cuh"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/half/forward/tensor_map.h"

namespace hw4::gpu::half_forward {

constexpr int kGroupThreads = 128;
constexpr int kBlockBytes = 227 * 1024; // of shared memory, at most

// How a block has rows of queries and of keys, or of what is like them: panels of 64 columns follow one another, rows
// of 128 bytes each.
template <int kDim, int kQueryRows, int kKeyRows>
struct Panels {
    static constexpr int kPanels = kDim / kBoxColumns;
    static constexpr int kRowBytes = 2 * kBoxColumns;
    static constexpr int kQueryPanel = kQueryRows * kRowBytes;
    static constexpr int kKeyPanel = kKeyRows * kRowBytes;
    static constexpr int kQueryBytes = kPanels * kQueryPanel;
    static constexpr int kKeyBytes = kPanels * kKeyPanel;

    static_assert(kQueryBytes % 1024 == 0 && kKeyBytes % 1024 == 0, "the swizzle counts from there");
};

// Rows of a head from `row` on, the boxes of all panels. They arrive at `filled`, which expects their bytes.
template <int kPanels, int kPanelBytes>
__device__ __forceinline__ void copy_panels(SharedAddress to, const CUtensorMap& map, int row, int head, int batch,
                                            SharedAddress filled) {
    for (int panel = 0; panel < kPanels; ++panel)
        copy_box(to + panel * kPanelBytes, &map, panel * kBoxColumns, row, head, batch, filled);
}

// The barriers of a stage, which one thread has filled and so many arrivals release.
__device__ __forceinline__ void init_stage(uint64_t& filled, uint64_t& released, int arrivals) {
    init_barrier(address_of(&filled), 1);
    init_barrier(address_of(&released), arrivals);
}

// By one lane of each warp, which has come together.
__device__ __forceinline__ void arrive_by_warp(SharedAddress barrier) {
    __syncwarp();
    if (is_elected()) arrive(barrier);
}

template <class Memory>
__device__ __forceinline__ Memory& memory_of_block() {
    extern __shared__ __align__(1024) unsigned char block_memory[];
    if (address_of(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    return *reinterpret_cast<Memory*>(block_memory);
}

// By one thread, before all others begin: maps are fetched early, and the copy engine sees the barriers.
template <class Memory, class... Maps>
__device__ __forceinline__ void prepare_block(Memory& memory, const Maps&... maps) {
    (prefetch_map(&maps), ...);
    memory.init_barriers();
    publish_barriers();
    publish_to_async();
}

// Which group the thread is in. The last, whose threads have things copied, gives registers back to the others.
template <class T>
__device__ __forceinline__ int begin_group() {
    const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == T::kGroups)
        give_registers_back<T::kCopierRegisters>();
    else
        take_registers<T::kGroupRegisters>();
    return group;
}

// A block for each job, or `most_blocks` that take more of them. `what` is what failed, in a message.
template <class T, class Memory, class... Parameters>
void launch_blocks(const char* what, void (*kernel)(Parameters...), int64_t jobs, int64_t most_blocks,
                   cudaStream_t stream, const Parameters&... parameters) {
    constexpr size_t kBytes = sizeof(Memory);
    static_assert(kBytes <= kBlockBytes);
    check(HW4_CUDA_STATUS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)), what,
          __FILE__, __LINE__);
    const auto blocks = static_cast<unsigned>(std::min(jobs, most_blocks));
    kernel<<<blocks, T::kThreads, kBytes, stream>>>(parameters...);
    check(HW4_CUDA_STATUS(cudaGetLastError()), what, __FILE__, __LINE__);
}

} // namespace hw4::gpu::half_forward
