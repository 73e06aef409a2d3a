// The card's clock and power, from NVIDIA's library for that where the driver has brought it.
#pragma once

#include "src/bench/workbench.h"

namespace hw4::bench::gpu_side {

class Nvml {
public:
    Nvml(); // where it is not there, nothing is known
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    bool knows() const { return card_ != nullptr; }
    // Now, of the card in use.
    CardState state() const;

private:
    using Shutdown = int (*)();
    using Clock = int (*)(void* card, int kind, unsigned* megahertz);
    using Power = int (*)(void* card, unsigned* milliwatts);

    void* library_ = nullptr;
    void* card_ = nullptr;
    Shutdown shutdown_ = nullptr; // once it was started
    Clock clock_ = nullptr;
    Power power_ = nullptr;
};

} // namespace hw4::bench::gpu_side
