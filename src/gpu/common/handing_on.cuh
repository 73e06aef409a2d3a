// What a thread carries from key to key on its way to the thread in the same place of another block, which goes on with
// it: through global memory, in places that say how far their numbers have come.
//
// In memory: a counter and a word for each place, all of which begin as 0; then, from a whole line on, the numbers,
// [place][number][thread]. What a thread wrote before its release, and with a barrier before it what its block wrote,
// is seen by the thread that acquires the word after.
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

__device__ __forceinline__ void store_release(unsigned* word, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ __forceinline__ void add_release(unsigned* word, unsigned more) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(more) : "memory");
}

// Each of kThreads threads has kNumbers floats, which `numbers.visit(each)` goes through one after the other.
template <int kNumbers, int kThreads>
class HandingOn {
public:
    // What has to be 0 at first, and all.
    HW4_INLINE static size_t cleared_bytes(size_t places) {
        constexpr size_t kLine = 128;
        return ((1 + places) * sizeof(unsigned) + kLine - 1) / kLine * kLine;
    }
    static size_t bytes(size_t places) { return cleared_bytes(places) + places * kNumbers * kThreads * sizeof(float); }

    HandingOn() = default; // none: nothing is handed on
    HW4_INLINE HandingOn(void* memory, size_t places)
        : words_(static_cast<unsigned*>(memory)),
          numbers_(reinterpret_cast<float*>(static_cast<char*>(memory) + cleared_bytes(places))) {}

    HW4_INLINE bool any() const { return words_ != nullptr; }

    // How many have asked before. By one thread of a block.
    __device__ __forceinline__ unsigned count() const { return atomicAdd(words_, 1u); }

    // All threads call it, and `sync` is their barrier: thread `thread` leaves its numbers, and the place has come so
    // far, which is more than 0.
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

    // Once the place has come so far; until then it asks every kPause nanoseconds, or all the time.
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

// ---- A kernel whose blocks take their places while the last blocks of the kernel before it in the stream are still at
// work (programmatic dependent launch, from compute capability 9.0 on).

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
