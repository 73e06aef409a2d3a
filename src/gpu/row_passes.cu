// logsumexp_kernel: a thread for each row. extremes_kernel: a block for 256 rows of one head, eight threads for a row,
// which add like the eight lanes in domain.cpp. append_kernel: a warp for each row.
#include "src/gpu/row_passes.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "src/contracts/logsumexp.h"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/device/check.h"

namespace hw4::gpu {
namespace {

constexpr int kPassThreads = 256;
constexpr int kPassWarps = kPassThreads / kWarpSize;
constexpr int kLanes = 8; // of a row
constexpr int kGroups = kPassThreads / kLanes;
constexpr int64_t kMostBlocks = int64_t{1} << 30;

__global__ void __launch_bounds__(kPassThreads)
    logsumexp_kernel(const RowStatistics* rows, int64_t count, Scale scale, double one, float* to) {
    const int64_t step = int64_t{gridDim.x} * kPassThreads;
    for (int64_t i = int64_t{blockIdx.x} * kPassThreads + threadIdx.x; i < count; i += step)
        to[i] = logsumexp(rows[i], scale, one);
}

__device__ float value_at(const Tensor& tensor, int64_t index) {
    if (tensor.element == Element::float32) return static_cast<const float*>(tensor.data)[index];
    const uint16_t bits = static_cast<const uint16_t*>(tensor.data)[index];
    return tensor.element == Element::bf16 ? __bfloat162float(__ushort_as_bfloat16(bits))
                                           : __half2float(__ushort_as_half(bits));
}

struct ExtremesArgs {
    Tensor tensor;
    PageTable pages;
    int64_t heads;
    int64_t rows;
    int64_t columns;
    int64_t blocks_of_head;
    int64_t blocks;
    RowExtremes* to;
};

// The extremes of the rows of the thread's group. Only lane 0 of the group has them; the other lanes have partial sums.
__device__ RowExtremes extremes_of_group(const ExtremesArgs& args, int64_t unit, int64_t first, int64_t end) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    RowExtremes found{0, first, 0};
    // All groups take the same number of turns, because the whole warp takes part in the shuffles.
    for (int64_t turn = first; turn < end; turn += kGroups) {
        const int64_t row = turn + static_cast<int>(threadIdx.x) / kLanes;
        double sum = 0;
        uint32_t bits = 0;
        const int64_t place = row < end ? args.pages.offset(args.tensor, unit / args.heads, unit % args.heads, row) : 0;
        if (row < end)
            for (int64_t column = lane; column < args.columns; column += kLanes) {
                const float value = value_at(args.tensor, place + column);
                sum += fabs(static_cast<double>(value));
                bits = max(bits, bits_of(value) & 0x7fffffffu);
            }
        for (int half = kLanes / 2; half > 0; half /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, half, kLanes);
            bits = max(bits, __shfl_down_sync(0xffffffffu, bits, half, kLanes));
        }
        if (row < end && sum > found.largest_sum) found.largest_sum = sum, found.row = row;
        found.magnitude_bits = max(found.magnitude_bits, bits);
    }
    return found;
}

__global__ void __launch_bounds__(kPassThreads) extremes_kernel(const __grid_constant__ ExtremesArgs args) {
    __shared__ RowExtremes groups[kGroups];
    for (int64_t block = blockIdx.x; block < args.blocks; block += gridDim.x) {
        const int64_t unit = block / args.blocks_of_head;
        const int64_t first = block % args.blocks_of_head * kExtremesRows;
        const RowExtremes found = extremes_of_group(args, unit, first, min(first + kExtremesRows, args.rows));
        if (threadIdx.x % kLanes == 0) groups[threadIdx.x / kLanes] = found;
        __syncthreads();
        if (threadIdx.x == 0) {
            RowExtremes all = groups[0];
            for (int i = 1; i < kGroups; ++i) {
                const RowExtremes& one = groups[i];
                if (one.largest_sum > all.largest_sum || (one.largest_sum == all.largest_sum && one.row < all.row))
                    all.largest_sum = one.largest_sum, all.row = one.row;
                all.magnitude_bits = max(all.magnitude_bits, one.magnitude_bits);
            }
            args.to[block] = all;
        }
        __syncthreads();
    }
}

template <class T>
__global__ void __launch_bounds__(kPassThreads) append_kernel(const __grid_constant__ Append all) {
    const int64_t step = int64_t{gridDim.x} * kPassWarps;
    for (int64_t row = int64_t{blockIdx.x} * kPassWarps + threadIdx.x / kWarpSize; row < all.rows(); row += step)
        append_row<T>(all, row, threadIdx.x % kWarpSize, kWarpSize);
}

unsigned grid_of(int64_t blocks) { return static_cast<unsigned>(std::min(blocks, kMostBlocks)); }

} // namespace

void logsumexps(const RowStatistics* rows, int64_t count, Scale scale, double one, float* to, cudaStream_t stream) {
    if (count == 0) return;
    logsumexp_kernel<<<grid_of((count + kPassThreads - 1) / kPassThreads), kPassThreads, 0, stream>>>(rows, count,
                                                                                                      scale, one, to);
    HW4_CUDA_LAUNCHED("logsumexp_kernel");
}

void find_extremes(const Tensor& tensor, const PageTable& pages, int64_t batches, int64_t heads, int64_t rows,
                   int64_t columns, RowExtremes* to, cudaStream_t stream) {
    const int64_t of_head = extremes_of_head(rows);
    const int64_t blocks = batches * heads * of_head;
    if (blocks == 0) return;
    extremes_kernel<<<grid_of(blocks), kPassThreads, 0, stream>>>(
        {tensor, pages, heads, rows, columns, of_head, blocks, to});
    HW4_CUDA_LAUNCHED("extremes_kernel");
}

void append_rows(const Append& all, cudaStream_t stream) {
    const auto kernel = all.parts[0].from.element == Element::float32 ? append_kernel<float> : append_kernel<uint16_t>;
    kernel<<<grid_of((all.rows() + kPassWarps - 1) / kPassWarps), kPassThreads, 0, stream>>>(all);
    HW4_CUDA_LAUNCHED("append_kernel");
}

} // namespace hw4::gpu
