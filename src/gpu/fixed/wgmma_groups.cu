#include <algorithm>
#include <limits>

#include "fixed_kernels.h"
#include "prepare.h"
#include "wgmma_kernel.cuh"

namespace hw4::gpu {
namespace {

using namespace fixed_point;

// Head size, groups of a block, stages, blocks of a multiprocessor. Alone has so many stages that no two blocks fit.
using Alone32 = Variant<32, 1, 9, 1>;
using Alone64 = Variant<64, 1, 5, 1>;
using Alone128 = Variant<128, 1, 3, 1>;
// Each group a block of its own.
using Apart32 = Variant<32, 1, 2, 4>;
using Apart64 = Variant<64, 1, 2, 3>;
// Groups that go through the same tiles, so that those are copied once.
using Joint32 = Variant<32, 4, 8, 1>;
using Joint64 = Variant<64, 3, 6, 1>;
using Joint128 = Variant<128, 2, 3, 1>;

constexpr int64_t kOneForEachUnit = std::numeric_limits<int64_t>::max();

Prepared prepare(const KernelArgs& args, cudaStream_t stream) {
    const Prepared prepared = prepared_at(args.scratch, args.batches, args.tokens, args.dim);
    launch_prepare(args, prepared, stream);
    return prepared;
}

template <class T>
void launch_units(const KernelArgs& args, cudaStream_t stream) {
    launch_wgmma<T>(args, prepare(args, stream), kOneForEachUnit, nullptr, stream);
}

// As many blocks as the card holds at a time.
template <class T>
int64_t blocks_on(const Device& device) {
    return int64_t{device.multiprocessors} * T::kBlocks;
}

template <class T>
void launch_shares(const KernelArgs& args, const Device& device, cudaStream_t stream) {
    auto* const after =
        static_cast<unsigned char*>(args.scratch) + prepared_bytes({args.batches, args.tokens, int64_t{args.dim}});
    launch_wgmma<T>(args, prepare(args, stream), blocks_on<T>(device), after, stream);
}

template <class T>
size_t handover_bytes(const Shape& shape, const Device& device) {
    const int64_t units = shape.batches * ((shape.tokens + T::kGroups * kGroupRows - 1) / (T::kGroups * kGroupRows));
    return blocks_on<T>(device) < units ? Handover::bytes<T>(blocks_on<T>(device)) : 0;
}

// Groups of a block wait for each other between one unit and the next, and the last unit of a batch may leave some of
// them without rows. That pays where units are long, where few rows are missing, and where there is a unit for every
// multiprocessor. Measured at d = 64, joint against apart: N = 1024, which lacks a ninth, 117 against 124 TFLOP/s;
// N = 2048, which lacks a thirtieth, 149 against 145.
constexpr int64_t kLongUnit = 1024;

template <class Joint>
bool takes_joint(const KernelArgs& args, const Device& device) {
    const int64_t queries = queries_of(args);
    const int64_t missing = GroupRows::blocks_of_batch<Joint::kGroups>(args) * Joint::kGroups * kGroupRows - queries;
    return args.tokens >= kLongUnit && missing <= queries / 16 && units_of<Joint>(args) >= device.multiprocessors;
}

template <class Joint, class Apart>
void launch_joint_or_apart(const KernelArgs& args, cudaStream_t stream) {
    const Device device = current_device();
    if (takes_joint<Joint>(args, device))
        launch_shares<Joint>(args, device, stream);
    else
        launch_shares<Apart>(args, device, stream);
}

} // namespace

size_t shared_bytes_of_wgmma(int dim) {
    switch (padded_columns(dim)) {
    case 32: return std::max({sizeof(BlockMemory<Alone32>), sizeof(BlockMemory<Joint32>)});
    case 64: return std::max({sizeof(BlockMemory<Alone64>), sizeof(BlockMemory<Joint64>)});
    default: return sizeof(BlockMemory<Joint128>);
    }
}

size_t scratch_bytes_of_wgmma_shares(const Shape& shape, const Device& device) {
    const auto handover = [&] {
        switch (padded_columns(shape.dim)) {
        case 32: return std::max(handover_bytes<Apart32>(shape, device), handover_bytes<Joint32>(shape, device));
        case 64: return std::max(handover_bytes<Apart64>(shape, device), handover_bytes<Joint64>(shape, device));
        default: return handover_bytes<Joint128>(shape, device);
        }
    };
    return prepared_bytes(shape) + handover();
}

void launch_wgmma_group(const KernelArgs& args, cudaStream_t stream) {
    switch (padded_columns(args.dim)) {
    case 32: return launch_units<Alone32>(args, stream);
    case 64: return launch_units<Alone64>(args, stream);
    default: return launch_units<Alone128>(args, stream);
    }
}

void launch_wgmma_groups(const KernelArgs& args, cudaStream_t stream) {
    switch (padded_columns(args.dim)) {
    case 32: return launch_units<Apart32>(args, stream);
    case 64: return launch_units<Apart64>(args, stream);
    default: return launch_units<Joint128>(args, stream);
    }
}

void launch_wgmma_shares(const KernelArgs& args, cudaStream_t stream) {
    switch (padded_columns(args.dim)) {
    case 32: return launch_joint_or_apart<Joint32, Apart32>(args, stream);
    case 64: return launch_joint_or_apart<Joint64, Apart64>(args, stream);
    default: return launch_shares<Joint128>(args, current_device(), stream);
    }
}

} // namespace hw4::gpu
