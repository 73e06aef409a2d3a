// widen_rows, narrow_rows: between rows of 16-bit numbers and packed floats.
//
// Idea      A warp takes rows, a lane a column at a time, by the same functions as the host.
// Limits    Memory: 6 bytes a number.
#include "src/gpu/stored_rows.h"

#include <algorithm>

#include "src/base/narrow_floats.h"
#include "src/gpu/device/check.h"

namespace hw4::gpu {
namespace {

constexpr int kLanes = 32;
constexpr int kRowsOfBlock = 8;
constexpr int64_t kMostBlocks = 1 << 16; // each takes some rows, and then others

// convert(a stored number, a float) of every one.
template <class Convert>
__device__ __forceinline__ void each_number(const StoredRows& rows, const Convert& convert) {
    for (int64_t row = int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.y; row < rows.rows;
         row += int64_t{gridDim.x} * kRowsOfBlock) {
        auto* const stored = reinterpret_cast<uint16_t*>(static_cast<unsigned char*>(rows.stored) +
                                                         static_cast<size_t>(row) * rows.pitch_bytes);
        float* const floats = rows.floats + row * rows.dim;
        for (int64_t column = threadIdx.x; column < rows.dim; column += kLanes) convert(stored[column], floats[column]);
    }
}

__global__ void __launch_bounds__(kLanes* kRowsOfBlock) widen_kernel(const __grid_constant__ StoredRows rows) {
    const bool bf16 = rows.element == Element::bf16;
    each_number(rows, [&](uint16_t stored, float& x) { x = bf16 ? bf16_value(stored) : fp16_value(stored); });
}

__global__ void __launch_bounds__(kLanes* kRowsOfBlock) narrow_kernel(const __grid_constant__ StoredRows rows) {
    const bool bf16 = rows.element == Element::bf16;
    each_number(rows, [&](uint16_t& stored, float x) { stored = bf16 ? bf16_bits(x) : fp16_bits(x); });
}

unsigned blocks_for(const StoredRows& rows) {
    return static_cast<unsigned>(std::min((rows.rows + kRowsOfBlock - 1) / kRowsOfBlock, kMostBlocks));
}

} // namespace

void widen_rows(const StoredRows& rows, cudaStream_t stream) {
    widen_kernel<<<blocks_for(rows), dim3(kLanes, kRowsOfBlock), 0, stream>>>(rows);
    HW4_CUDA_LAUNCHED("widen_kernel");
}

void narrow_rows(const StoredRows& rows, cudaStream_t stream) {
    narrow_kernel<<<blocks_for(rows), dim3(kLanes, kRowsOfBlock), 0, stream>>>(rows);
    HW4_CUDA_LAUNCHED("narrow_kernel");
}

} // namespace hw4::gpu
