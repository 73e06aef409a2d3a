#include "src/gpu/device.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "src/gpu/device/check.h"
#include "src/gpu/fixed/kernels.h"

#if !defined(HW4_ARCHS) || !defined(HW4_PTX_ARCH)
#error "the Makefile passes the architectures this build is for"
#endif

namespace hw4::gpu {
namespace {

int attribute_of(int device, cudaDeviceAttr attribute) {
    int value = 0;
    HW4_CUDA(cudaDeviceGetAttribute(&value, attribute, device));
    return value;
}

} // namespace

BuiltFor built_for() {
    std::istringstream text(HW4_ARCHS); // "80 90"
    std::vector<int> archs{std::istream_iterator<int>(text), {}};
    std::sort(archs.begin(), archs.end());
    return {archs, HW4_PTX_ARCH};
}

int code_arch(int card_arch, const BuiltFor& built) {
    int found = 0;
    for (const int arch : built.archs)
        if (arch / 10 == card_arch / 10 && arch <= card_arch) found = arch;
    return found == 0 && card_arch >= built.ptx ? built.ptx : found;
}

int card_in_use() {
    int card = 0;
    HW4_CUDA(cudaGetDevice(&card));
    return card;
}

int card_arch() {
    const int device = card_in_use();
    return 10 * attribute_of(device, cudaDevAttrComputeCapabilityMajor) +
           attribute_of(device, cudaDevAttrComputeCapabilityMinor);
}

Device current_device() {
    const int device = card_in_use();
    const int arch = card_arch();
    const int code = code_arch(arch, built_for());
    return {arch, static_cast<size_t>(attribute_of(device, cudaDevAttrMaxSharedMemoryPerBlockOptin)),
            attribute_of(device, cudaDevAttrMultiProcessorCount), code, code >= 80 && card_follows_table()};
}

std::string device_name() {
    cudaDeviceProp properties;
    HW4_CUDA(cudaGetDeviceProperties(&properties, card_in_use()));
    return properties.name;
}

} // namespace hw4::gpu
