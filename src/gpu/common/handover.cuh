// A thread passes its state from key to key on to the thread in the same place of another block, which continues:
// through global memory, in places with a word that tells how far their numbers have come.
//
// Memory layout: a counter and a word for each place, all 0 at first; then, from the next cache line on, the numbers,
// [place][number][thread]. A thread that acquires the word sees everything that the releasing thread wrote before and,
// with a barrier before the release, everything that its block wrote.
#pragma once

#include <cstddef>

#include "src/base/inline.h"
#include "src/gpu/device/check.h"

namespace hw4::gpu {

__device__ __forceinline__ unsigned load_acquire(const unsigned* word) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

// Orders nothing, and unlike load_acquire leaves the L1 cache as it is: for a loop that waits.
__device__ __forceinline__ unsigned load_relaxed(const unsigned* word) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ void store_release(unsigned* word, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ __forceinline__ void add_release(unsigned* word, unsigned more) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(more) : "memory");
}

// Each of kThreads threads has kNumbers floats; `numbers.visit(each)` visits them one after the other.
template <int kNumbers, int kThreads>
class HandingOn {
public:
    // The bytes that must be 0 at first, and all bytes.
    HW4_INLINE static size_t cleared_bytes(size_t places) {
        constexpr size_t kLine = 128;
        return ((1 + places) * sizeof(unsigned) + kLine - 1) / kLine * kLine;
    }
    static size_t bytes(size_t places) { return cleared_bytes(places) + places * kNumbers * kThreads * sizeof(float); }

    HandingOn() = default; // no memory: nothing is passed on
    HW4_INLINE HandingOn(void* memory, size_t places)
        : words_(static_cast<unsigned*>(memory)),
          numbers_(reinterpret_cast<float*>(static_cast<char*>(memory) + cleared_bytes(places))) {}

    HW4_INLINE bool any() const { return words_ != nullptr; }

    // The number of earlier calls. One thread of a block calls it.
    __device__ __forceinline__ unsigned count() const { return atomicAdd(words_, 1u); }

    // All threads call it, and `sync` is their barrier. Thread `thread` stores its numbers, and the word of the place
    // becomes `so_far`, which is more than 0.
    template <class Numbers, class Sync>
    __device__ __forceinline__ void leave(Numbers&& numbers, size_t place, unsigned so_far, unsigned thread,
                                          const Sync& sync) const {
        float* to = first(place, thread);
        numbers.visit([&](float x) {
            __stcg(to, x);
            to += kThreads;
        });
        sync();
        if (thread == 0) store_release(words_ + 1 + place, so_far);
    }

    // Waits until the word of the place is `so_far`, polling every kPause ns, or without a pause; then loads.
    template <unsigned kPause, class Numbers, class Sync>
    __device__ __forceinline__ void take(Numbers&& numbers, size_t place, unsigned so_far, unsigned thread,
                                         const Sync& sync) const {
        if (thread == 0)
            while (load_acquire(words_ + 1 + place) < so_far)
                if constexpr (kPause > 0) __nanosleep(kPause);
        sync();
        const float* from = first(place, thread);
        numbers.visit([&](float& x) {
            x = __ldcg(from);
            from += kThreads;
        });
    }

private:
    __device__ __forceinline__ float* first(size_t place, unsigned thread) const {
        return numbers_ + place * kNumbers * kThreads + thread;
    }

    unsigned* words_ = nullptr;
    float* numbers_ = nullptr;
};

// ---- Blocks of a kernel can start while the last blocks of the previous kernel in the stream still run (programmatic
// dependent launch, from compute capability 9.0 on).

// In every block of the previous kernel: once all of them have called this or ended, the next kernel may start.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// In every block of the next kernel, even if it reads nothing: waits until the previous kernel has ended and all its
// writes are visible. The kernel after the next one waits only for the next one, and must find both ended. Before this
// call a block may read data that was there when the previous kernel started.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <class... Parameters, class... Arguments>
cudaError_t launch_with(cudaLaunchAttribute attribute, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                        size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return HW4_CUDA_STATUS(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <class... Parameters, class... Arguments>
void launch_early(const char* what, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                  size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    check(launch_with(early, kernel, blocks, threads, shared_bytes, stream, arguments...), what, __FILE__, __LINE__);
}

// ---- Blocks that wait for one another: all run at the same time, or none (cooperative launch).

// False: they cannot all run at the same time.
template <class... Parameters, class... Arguments>
bool launch_together(const char* what, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
                     size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
    cudaLaunchAttribute together{};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    const cudaError_t status = launch_with(together, kernel, blocks, threads, shared_bytes, stream, arguments...);
    if (status == cudaErrorCooperativeLaunchTooLarge) {
        static_cast<void>(cudaGetLastError());
        return false;
    }
    check(status, what, __FILE__, __LINE__);
    return true;
}

} // namespace hw4::gpu
