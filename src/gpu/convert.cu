// convert_rows: converts between float32, bf16 and fp16 for a kernel that takes another element, and back.
//
// Idea      A thread takes 8 columns at a time: 16 bytes of 16-bit numbers, 32 of floats.
// Work      A block converts some rows of one head of one tensor.
// Limits    Memory: 6 bytes per number.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "src/gpu/device/check.h"
#include "src/gpu/launch.h"

namespace hw4::gpu {
namespace {

constexpr int kConvertThreads = 256;
constexpr int kPiece = 8;  // columns
constexpr int kPieces = 4; // of a thread

struct Part {
    RowsOfHeads all;
    uint32_t rows_of_block;
    uint32_t blocks_of_head;
    bool from_pieces; // rows are read, and with to_pieces written, 16 bytes at a time
    bool to_pieces;
};

struct ConvertArgs {
    Part parts[kMostConverted];
    int64_t blocks; // of all parts; a grid may have fewer blocks, which then take several each
};

__device__ __forceinline__ float number_at(const uint16_t* at, bool bf16) {
    return bf16 ? __bfloat162float(__ushort_as_bfloat16(*at)) : __half2float(__ushort_as_half(*at));
}
__device__ __forceinline__ uint16_t bits_of_number(float x, bool bf16) {
    return bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x)) : __half_as_ushort(__float2half_rn(x));
}

// Columns of a row from `first` on, zeros where there are no columns.
__device__ __forceinline__ void load_piece(float (&x)[kPiece], const unsigned char* row, Element element, int first,
                                           int columns, bool whole) {
    const bool bf16 = element == Element::bf16;
    if (element == Element::float32) {
        const float* const at = reinterpret_cast<const float*>(row) + first;
        if (whole && first + kPiece <= columns) {
            const float4 low = *reinterpret_cast<const float4*>(at);
            const float4 high = *reinterpret_cast<const float4*>(at + 4);
            x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
            x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
            return;
        }
#pragma unroll
        for (int i = 0; i < kPiece; ++i) x[i] = first + i < columns ? at[i] : 0.0f;
        return;
    }
    const uint16_t* const at = reinterpret_cast<const uint16_t*>(row) + first;
    uint16_t bits[kPiece];
    if (whole && first + kPiece <= columns) {
        const uint4 words = *reinterpret_cast<const uint4*>(at);
        const uint32_t each[] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < kPiece; ++i) bits[i] = static_cast<uint16_t>(each[i / 2] >> i % 2 * 16);
    } else {
#pragma unroll
        for (int i = 0; i < kPiece; ++i) bits[i] = first + i < columns ? at[i] : uint16_t{0};
    }
#pragma unroll
    for (int i = 0; i < kPiece; ++i) x[i] = number_at(bits + i, bf16);
}

__device__ __forceinline__ void store_piece(const float (&x)[kPiece], unsigned char* row, Element element, int first,
                                            int columns, bool whole) {
    const bool bf16 = element == Element::bf16;
    if (element == Element::float32) {
        float* const at = reinterpret_cast<float*>(row) + first;
        if (whole && first + kPiece <= columns) {
            *reinterpret_cast<float4*>(at) = make_float4(x[0], x[1], x[2], x[3]);
            *reinterpret_cast<float4*>(at + 4) = make_float4(x[4], x[5], x[6], x[7]);
            return;
        }
#pragma unroll
        for (int i = 0; i < kPiece; ++i)
            if (first + i < columns) at[i] = x[i];
        return;
    }
    uint16_t* const at = reinterpret_cast<uint16_t*>(row) + first;
    if (whole && first + kPiece <= columns) {
        uint32_t words[kPiece / 2];
#pragma unroll
        for (int i = 0; i < kPiece / 2; ++i)
            words[i] = bits_of_number(x[2 * i], bf16) | uint32_t{bits_of_number(x[2 * i + 1], bf16)} << 16;
        *reinterpret_cast<uint4*>(at) = make_uint4(words[0], words[1], words[2], words[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
        if (first + i < columns) at[i] = bits_of_number(x[i], bf16);
}

template <class T>
__device__ __forceinline__ T* head_of(const Tensor& tensor, int64_t batch, int64_t head, int64_t row) {
    const int64_t elements = batch * tensor.batch + head * tensor.head + row * tensor.row;
    return static_cast<T*>(tensor.data) + elements * static_cast<int64_t>(tensor.element == Element::float32 ? 4 : 2);
}

__device__ __forceinline__ void convert_block(const ConvertArgs& args, int64_t number) {
    int index = 0;
    for (;; ++index) {
        const Part& part = args.parts[index];
        const int64_t blocks = part.all.batches * part.all.heads * part.blocks_of_head;
        if (number < blocks) break;
        number -= blocks;
    }
    const auto block = static_cast<uint32_t>(number);
    const Part& part = args.parts[index];
    const RowsOfHeads& all = part.all;
    const uint32_t unit = block / part.blocks_of_head;
    const int64_t first = int64_t{block - unit * part.blocks_of_head} * part.rows_of_block;
    const auto rows = static_cast<uint32_t>(min(int64_t{part.rows_of_block}, all.rows - first));
    const int64_t batch = unit / static_cast<uint32_t>(all.heads);
    const int64_t head = unit - batch * all.heads;
    const auto* const from = head_of<const unsigned char>(all.from, batch, head, first);
    auto* const to = head_of<unsigned char>(all.to, batch, head, first);
    const int64_t from_row = all.from.row * (all.from.element == Element::float32 ? 4 : 2);
    const int64_t to_row = all.to.row * (all.to.element == Element::float32 ? 4 : 2);
    const auto pieces = static_cast<uint32_t>((all.to_columns + kPiece - 1) / kPiece);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const uint32_t piece = threadIdx.x + static_cast<uint32_t>(i) * kConvertThreads;
        const uint32_t row = piece / pieces;
        const int column = static_cast<int>(piece - row * pieces) * kPiece;
        if (row >= rows) return;
        float x[kPiece];
        load_piece(x, from + row * from_row, all.from.element, column, static_cast<int>(all.columns), part.from_pieces);
        store_piece(x, to + row * to_row, all.to.element, column, static_cast<int>(all.to_columns), part.to_pieces);
    }
}

__global__ void __launch_bounds__(kConvertThreads) convert_kernel(const __grid_constant__ ConvertArgs args) {
    for (int64_t block = blockIdx.x; block < args.blocks; block += gridDim.x) convert_block(args, block);
}

} // namespace

void convert_rows(const RowsOfHeads* list, int count, cudaStream_t stream) {
    ConvertArgs args{};
    int64_t blocks = 0;
    for (int i = 0; i < count; ++i) {
        const RowsOfHeads& all = list[i];
        const int64_t pieces = (all.to_columns + kPiece - 1) / kPiece;
        const int64_t rows_of_block = std::max<int64_t>(1, kConvertThreads * kPieces / pieces);
        const int64_t blocks_of_head = (all.rows + rows_of_block - 1) / rows_of_block;
        args.parts[i] = {all, static_cast<uint32_t>(rows_of_block), static_cast<uint32_t>(blocks_of_head),
                         all.from.is_aligned(16), all.to.is_aligned(16)};
        blocks += all.batches * all.heads * blocks_of_head;
    }
    if (blocks == 0) return;
    args.blocks = blocks;
    constexpr int64_t kMostBlocks = int64_t{1} << 30;
    convert_kernel<<<static_cast<unsigned>(std::min(blocks, kMostBlocks)), kConvertThreads, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("convert_kernel");
}

} // namespace hw4::gpu
