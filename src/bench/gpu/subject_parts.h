// What the subjects of the card are made of: memory that is counted, and a kernel.
#pragma once

#include <string>

#include "src/bench/workbench.h"
#include "src/gpu/device/memory.h"
#include "src/gpu/kernels.h"

namespace hw4::bench::gpu_side {

// Bytes of the card, by whoever takes them.
struct CardMemory {
    size_t free = 0;
    size_t total = 0;

    size_t taken() const { return total - free; }
};
CardMemory memory_of_card();

// Memory of the card that is counted.
class Memory {
public:
    Memory() = default;
    Memory(MemoryCount& count, size_t bytes, const char* purpose);

    void* get() const { return memory_.get(); }
    float* floats() const { return static_cast<float*>(memory_.get()); }

private:
    gpu::Scratch memory_; // before what counts it
    Counted counted_;
};

// The named kernel, or the one that hw4 takes. Throws Unsupported.
const gpu::Kernel& kernel_for(const std::string& name, const Problem& problem, const Contract& contract,
                              const gpu::Device& device);

} // namespace hw4::bench::gpu_side
