// Running sums on their way from one block to another, which goes on with them (shares.h).
#pragma once

#include "src/gpu/common/handing_on.cuh"
#include "src/gpu/fixed/forward/queries.cuh"
#include "src/gpu/fixed/forward/running_sums.cuh"
#include "src/gpu/fixed/forward/wgmma.cuh"

namespace hw4::gpu::fixed_point {

// In memory whose first cleared_bytes() are 0 when the kernel starts. None where no row is handed on.
class Handover {
public:
    template <class T>
    static constexpr size_t kNumbers = // of a thread
        Running<TileLayout<T::kDim>::kParts, TileLayout<T::kDim>::kColumns / 2>::kNumbers;

    template <class T>
    static size_t cleared_bytes(int64_t blocks) {
        constexpr size_t kLine = 128; // where the sums begin
        return ((static_cast<size_t>(blocks) * T::kGroups + 1) * sizeof(unsigned) + kLine - 1) / kLine * kLine;
    }
    template <class T>
    static size_t bytes(int64_t blocks) {
        return cleared_bytes<T>(blocks) +
               static_cast<size_t>(blocks) * T::kGroups * kNumbers<T> * kGroupThreads * sizeof(float);
    }

    Handover() = default;

    template <class T>
    static Handover at(void* memory, int64_t blocks) {
        Handover made;
        made.started_ = static_cast<unsigned*>(memory);
        made.sums_ = reinterpret_cast<float*>(static_cast<unsigned char*>(memory) + cleared_bytes<T>(blocks));
        return made;
    }

    // Which share the block takes. It may come to wait for the next share's block, so shares go, from the last to the
    // first, to blocks in the order in which they start: whoever is waited for is at work. By one thread, before it
    // waits for the pre-pass: the memory was cleared before that.
    __device__ uint32_t take_share() const {
        const unsigned started = started_ == nullptr ? blockIdx.x : atomicAdd(started_, 1u);
        return gridDim.x - 1 - started;
    }

    template <class T, class Sums>
    __device__ void give(int64_t share, int group, Sums& running) const {
        const int64_t index = share * T::kGroups + group;
        float* to = place<T>(index);
        running.visit([&](float x) {
            *to = x;
            to += kGroupThreads;
        });
        __threadfence();
        sync_group(group);
        if (threadIdx.x % kGroupThreads == 0) set_ready(index);
    }

    // What the block with that share gave, once it has.
    template <class T, class Sums>
    __device__ void take(int64_t share, int group, Sums& running) const {
        const int64_t index = share * T::kGroups + group;
        if (threadIdx.x % kGroupThreads == 0) wait_until_ready(index);
        sync_group(group);
        const float* from = place<T>(index);
        running.visit([&](float& x) {
            x = __ldcg(from);
            from += kGroupThreads;
        });
    }

private:
    unsigned* started_ = nullptr; // blocks; for each share and group there follows whether its sums are there
    float* sums_ = nullptr;       // [share][group][number][thread]

    template <class T>
    __device__ float* place(int64_t index) const {
        return sums_ + index * kNumbers<T> * kGroupThreads + threadIdx.x % kGroupThreads;
    }
    __device__ void set_ready(int64_t index) const { store_release(started_ + 1 + index, 1); }
    __device__ void wait_until_ready(int64_t index) const {
        while (load_acquire(started_ + 1 + index) == 0) {
        }
    }
};

} // namespace hw4::gpu::fixed_point
