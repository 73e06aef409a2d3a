#include "src/bench/float_memory.h"

#include <algorithm>
#include <array>

#include "src/cpu/aligned_memory.h"
#include "src/gpu/device.h"
#include "src/gpu/device/memory.h"

namespace hw4::bench {
namespace {

// On a stream of their own: kernels of other streams go on meanwhile.
class CardFloats : public FloatMemory {
public:
    explicit CardFloats(size_t count)
        : stream_(gpu::make_stream()), memory_(gpu::make_scratch(count * sizeof(float))) {}

    float* data() const override { return static_cast<float*>(memory_.get()); }
    bool on_card() const override { return true; }
    void put(size_t first, const float* from, size_t count) override {
        copy(data() + first, from, count, cudaMemcpyHostToDevice);
    }
    void get(size_t first, size_t count, float* to) const override {
        copy(to, data() + first, count, cudaMemcpyDeviceToHost);
    }

private:
    void copy(float* to, const float* from, size_t count, cudaMemcpyKind kind) const {
        HW4_CUDA(cudaMemcpyAsync(to, from, count * sizeof(float), kind, stream_.get()));
        HW4_CUDA(cudaStreamSynchronize(stream_.get()));
    }

    gpu::Stream stream_;
    gpu::Scratch memory_;
};

class PinnedFloats : public FloatMemory {
public:
    explicit PinnedFloats(size_t count)
        : memory_(cpu::allocate_aligned(count)), pinned_(gpu::pin(memory_.get(), count * sizeof(float))) {}

    float* data() const override { return memory_.get(); }
    bool on_card() const override { return false; }
    void put(size_t first, const float* from, size_t count) override { std::copy_n(from, count, data() + first); }
    void get(size_t first, size_t count, float* to) const override { std::copy_n(data() + first, count, to); }

private:
    cpu::AlignedFloats memory_; // before what pins it
    gpu::Pinned pinned_;
};

} // namespace

std::unique_ptr<FloatMemory> card_floats(size_t count) { return std::make_unique<CardFloats>(count); }
std::unique_ptr<FloatMemory> pinned_floats(size_t count) { return std::make_unique<PinnedFloats>(count); }

std::string card_identity() {
    std::array<char, 32> bus{};
    HW4_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), gpu::card_in_use()));
    return bus.data();
}

} // namespace hw4::bench
