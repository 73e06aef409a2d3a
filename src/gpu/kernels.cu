#include "src/gpu/kernels.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/kernels.h"
#include "src/gpu/fixed/forward/kernels.h"

#if !defined(HW4_ARCHS) || !defined(HW4_PTX_ARCH)
#error "the Makefile passes the architectures this build is for"
#endif

namespace hw4::gpu {
namespace {

size_t within_48_kib(int) { return 48 << 10; } // at most what every card grants a block

size_t no_scratch(const Shape&, const Device&) { return 0; }

int device_attribute(cudaDeviceAttr attribute) {
    int device = 0;
    int value = 0;
    HW4_CUDA(cudaGetDevice(&device));
    HW4_CUDA(cudaDeviceGetAttribute(&value, attribute, device));
    return value;
}

// "7.5"
std::string capability(int arch) { return std::to_string(arch / 10) + "." + std::to_string(arch % 10); }

} // namespace

const std::vector<Kernel>& kernels() {
    // In ladder order, one contract after the other: each row one idea after the one above, the fastest last.
    static const std::vector<Kernel> table = {
        {"plain_rows", "the baseline: a warp for each query row, straight from global memory", 75, within_48_kib,
         launch_plain_rows, no_scratch},
        {"shared_tiles", "32 query rows share tiles of 32 keys in shared memory", 75, within_48_kib,
         launch_shared_tiles, no_scratch},
        {"padded_tiles", "tile rows 33 floats apart, against bank conflicts", 75, within_48_kib, launch_padded_tiles,
         no_scratch},
        {"coalesced_tiles", "tiles loaded along their rows, 128 bytes a warp", 75, within_48_kib,
         launch_coalesced_tiles, no_scratch},
        {"unrolled_tiles", "loops over a tile's columns and keys unrolled", 75, within_48_kib, launch_unrolled_tiles,
         no_scratch},
        {"register_rows", "a row's running output and totals in registers", 75, within_48_kib, launch_register_rows,
         no_scratch},
        {"register_tiles", "8 x 8 scores and outputs a thread, as outer products; no running maximum", 80,
         shared_bytes_of_tiles, launch_register_tiles, no_scratch},
        {"paired_lanes", "lanes placed so that a 16-byte shared load takes half the time", 80, shared_bytes_of_tiles,
         launch_paired_lanes, no_scratch},
        {"async_tiles", "tiles copied in the background while others are computed", 80, shared_bytes_of_tiles,
         launch_async_tiles, no_scratch},
        {"ahead_tiles", "the operands of a step loaded while the step before is computed", 80, shared_bytes_of_tiles,
         launch_ahead_tiles, no_scratch},
        {"woven_tiles", "copies woven into the arithmetic, a few with every round", 80, shared_bytes_of_tiles,
         launch_woven_tiles, no_scratch},
        {"drawn_tiles", "blocks draw rows of tiles from a queue, the last ones in pieces", 80, shared_bytes_of_tiles,
         launch_drawn_tiles, scratch_bytes_of_drawn_tiles},
        {"mma_groups", "integer tensor cores by mma.sync, 64 query rows for each four warps", 80,
         shared_bytes_of_mma_groups, launch_mma_groups, scratch_bytes_of_fixed, Arithmetic::fixed},
        {"wgmma_group", "Hopper's asynchronous products, one group of four warps on a multiprocessor", 90,
         shared_bytes_of_wgmma_groups, launch_wgmma_group, scratch_bytes_of_fixed, Arithmetic::fixed, kMostWgmmaColumns,
         90},
        {"wgmma_groups", "several groups, so that some make weights while others multiply", 90,
         shared_bytes_of_wgmma_groups, launch_wgmma_groups, scratch_bytes_of_fixed, Arithmetic::fixed,
         kMostWgmmaColumns, 90},
        {"wgmma_shares", "the work divided evenly: blocks begin rows of others and hand their sums on", 90,
         shared_bytes_of_wgmma_shares, launch_wgmma_shares, scratch_bytes_of_wgmma_shares, Arithmetic::fixed,
         kMostWgmmaColumns, 90},
    };
    return table;
}

std::vector<Kernel> kernels_of(Arithmetic arithmetic) {
    std::vector<Kernel> list;
    for (const Kernel& kernel : kernels())
        if (kernel.arithmetic == arithmetic) list.push_back(kernel);
    return list;
}

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

Device current_device() {
    const int arch =
        10 * device_attribute(cudaDevAttrComputeCapabilityMajor) + device_attribute(cudaDevAttrComputeCapabilityMinor);
    return {arch, static_cast<size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)),
            device_attribute(cudaDevAttrMultiProcessorCount), code_arch(arch, built_for())};
}

std::string device_name() {
    int device = 0;
    cudaDeviceProp properties;
    HW4_CUDA(cudaGetDevice(&device));
    HW4_CUDA(cudaGetDeviceProperties(&properties, device));
    return properties.name;
}

const Kernel* find_kernel(const std::string& name) {
    for (const Kernel& kernel : kernels())
        if (name == kernel.name) return &kernel;
    return nullptr;
}

std::string why_not(const Kernel& kernel, const Shape& shape, const Device& device) {
    const std::string name = "kernel " + std::string(kernel.name);
    if (shape.dim > kernel.most_columns)
        return name + " takes d up to " + std::to_string(kernel.most_columns) + ", this case has " +
               std::to_string(shape.dim);
    if (device.arch < kernel.min_arch)
        return name + " needs compute capability " + capability(kernel.min_arch) + ", this card has " +
               capability(device.arch);
    if (device.arch > kernel.max_arch)
        return name + " is for compute capability " + capability(kernel.max_arch) +
               " and no later one, this card has " + capability(device.arch);
    if (device.code_arch < kernel.min_arch)
        return name + " needs code for compute capability " + capability(kernel.min_arch) +
               ", what this build runs on this card is for " + capability(device.code_arch) +
               "; make ARCHS=" + std::to_string(device.arch) + " makes one with it";
    const size_t shared = kernel.shared_bytes(static_cast<int>(shape.dim));
    if (device.shared_bytes < shared)
        return name + " needs " + std::to_string(shared) + " bytes of shared memory a block, this card has " +
               std::to_string(device.shared_bytes);
    return "";
}

const Kernel* choose_kernel(const Shape& shape, const Device& device, Arithmetic arithmetic) {
    const Kernel* best = nullptr;
    for (const Kernel& kernel : kernels())
        if (kernel.arithmetic == arithmetic && why_not(kernel, shape, device).empty()) best = &kernel;
    return best;
}

} // namespace hw4::gpu
