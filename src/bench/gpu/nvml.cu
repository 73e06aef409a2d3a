#include "src/bench/gpu/nvml.h"

#include <dlfcn.h>

#include <type_traits>

#include "src/gpu/device/check.h"

namespace hw4::bench::gpu_side {
namespace {

constexpr int kOfMultiprocessors = 1; // NVML_CLOCK_SM
constexpr int kBusIdLength = 32;

} // namespace

Nvml::Nvml() {
    library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library_, name));
        return function != nullptr;
    };
    int (*start)() = nullptr;
    int (*find_card)(const char* bus, void** card) = nullptr;
    Shutdown shutdown = nullptr;
    if (!find(start, "nvmlInit_v2") || !find(shutdown, "nvmlShutdown") || !find(clock_, "nvmlDeviceGetClockInfo") ||
        !find(power_, "nvmlDeviceGetPowerUsage") || !find(find_card, "nvmlDeviceGetHandleByPciBusId_v2"))
        return;
    if (start() != 0) return;
    shutdown_ = shutdown;
    int device = 0;
    char bus[kBusIdLength] = "";
    HW4_CUDA(cudaGetDevice(&device));
    HW4_CUDA(cudaDeviceGetPCIBusId(bus, kBusIdLength, device));
    if (find_card(bus, &card_) != 0) card_ = nullptr;
}

Nvml::~Nvml() {
    if (shutdown_ != nullptr) shutdown_();
    if (library_ != nullptr) ::dlclose(library_);
}

CardState Nvml::state() const {
    unsigned megahertz = 0;
    unsigned milliwatts = 0;
    if (clock_(card_, kOfMultiprocessors, &megahertz) != 0) megahertz = 0;
    if (power_(card_, &milliwatts) != 0) milliwatts = 0;
    return {static_cast<double>(megahertz), milliwatts * 1e-3};
}

} // namespace hw4::bench::gpu_side
