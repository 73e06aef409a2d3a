// mma_bf16_gradients, mma_fp16_gradients: backward in bf16 or fp16 on the tensor cores of any GPU from compute
// capability 8.0 on; plain.
//
// Idea      One kernel for dK and dV: its blocks keep keys and go through the queries. One for dQ: its blocks keep
//           queries and go through the keys. Both compute S and dP; P and dS stay in registers.
// Work      A block of four warps for each 64 keys, or queries, of a head, 16 rows per warp.
// Memory    64 rows of two operands, and a tile of the other two: 32 rows.
// Overlap   Between the blocks of a multiprocessor.
// Order     args.h; tiles of 32.
// Limits    For d > 128 dK and dV do not fit into the registers together: two passes.
#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/half/backward/args.h"
#include "src/gpu/half/forward/mma_rows.cuh"
#include "src/gpu/half/forward/output_rows.cuh"
#include "src/gpu/half/kernels.h"

namespace hw4::gpu::half_backward {
namespace {

using half_forward::Bf16;
using half_forward::Fp16;
using half_forward::kMmaThreads;
using half_forward::load_matrices;
using half_forward::load_rows;
using half_forward::OutputRows;

constexpr int kStayingRows = 64; // rows that stay
constexpr int kPassingRows = 32; // rows that pass by

// K and V stay, or Q and dO; the other two pass by. The first of each make scores, the second dP.
template <int kDim>
struct MmaTiles {
    alignas(16) uint16_t stay[2][kStayingRows][kDim + 8];
    alignas(16) uint16_t pass[2][kPassingRows][kDim + 8];
    float levels[kPassingRows];
    float origins[kPassingRows];
    float products[kPassingRows];
};

struct MmaArgs {
    KernelArgs all;
    Operand q;
    Operand k;
    Operand v;
    Operand dout;
    uint32_t blocks; // in a head
};

__device__ __forceinline__ const uint16_t* rows_of(const Operand& of, uint32_t batch, uint32_t head) {
    return static_cast<const uint16_t*>(of.at) + batch * of.batch + head * of.head;
}

// A warp's 16 staying rows times all passing rows.
template <class Number, int kDim>
__device__ __forceinline__ void multiply_tile(float (&s)[kPassingRows / 2],
                                              const uint16_t (&stay)[kStayingRows][kDim + 8],
                                              const uint16_t (&pass)[kPassingRows][kDim + 8]) {
    const int warp_row = static_cast<int>(threadIdx.x / kWarpSize) * 16;
    const int lane = static_cast<int>(threadIdx.x % kWarpSize);
#pragma unroll
    for (float& x : s) x = 0;
#pragma unroll
    for (int column = 0; column < kDim; column += 16) {
        uint32_t a[4];
        load_matrices<false>(a, &stay[warp_row + lane % 16][column + lane / 16 * 8]);
#pragma unroll
        for (int row = 0; row < kPassingRows; row += 16) {
            uint32_t b[4];
            load_matrices<false>(b, &pass[row + lane % 8 + lane / 16 * 8][column + lane / 8 % 2 * 8]);
            Number::multiply(s + row / 2, a, b[0], b[1]);
            Number::multiply(s + row / 2 + 4, a, b[2], b[3]);
        }
    }
}

// sums += pairs, rounded, times the passing rows.
template <class Number, int kDim>
__device__ __forceinline__ void add_tile(float (&sums)[kDim / 2], const float (&pairs)[kPassingRows / 2],
                                         const uint16_t (&pass)[kPassingRows][kDim + 8]) {
    const int lane = static_cast<int>(threadIdx.x % kWarpSize);
    uint32_t p[kPassingRows / 16][4];
    half_forward::pack_weights<Number>(p, pairs);
#pragma unroll
    for (int row = 0; row < kPassingRows; row += 16) {
#pragma unroll
        for (int column = 0; column < kDim; column += 16) {
            uint32_t b[4];
            load_matrices<true>(b, &pass[row + lane % 16][column + lane / 16 * 8]);
            Number::multiply(sums + column / 2, p[row / 16], b[0], b[1]);
            Number::multiply(sums + column / 2 + 4, p[row / 16], b[2], b[3]);
        }
    }
}

// For rows `row` and `row + 8`.
template <class Number, int kDim>
__device__ __forceinline__ void store_sums(const float (&sums)[kDim / 2], float scale, const KernelArgs& args,
                                           const Operand& of, uint32_t batch, uint32_t head, int row, int rows) {
    uint16_t* const at = static_cast<uint16_t*>(of.at) + batch * of.batch + head * of.head;
    OutputRows to{{nullptr, nullptr}, args.dim};
#pragma unroll
    for (int i = 0; i < 2; ++i)
        if (row + 8 * i < rows) to.row[i] = at + (row + 8 * i) * of.row;
    const float factor[2] = {scale, scale};
    if (args.whole_pieces)
        half_forward::store_rows<GradientsOf<Number>>(sums, factor, to);
    else
        half_forward::store_rows_apart<GradientsOf<Number>>(sums, factor, to);
}

template <class Number, int kDim, bool kDk, bool kDv>
__global__ void __launch_bounds__(kMmaThreads) mma_key_kernel(const __grid_constant__ MmaArgs args) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char mma_memory[];
    auto& memory = *reinterpret_cast<MmaTiles<kDim>*>(mma_memory);
    const KernelArgs& all = args.all;
    const View& view = all.view;
    const uint32_t unit = blockIdx.x / args.blocks;
    const int first = static_cast<int>(blockIdx.x - unit * args.blocks) * kStayingRows;
    const uint32_t batch = unit / all.work.kv_heads;
    const uint32_t kv_head = unit - batch * all.work.kv_heads;
    const int lane = static_cast<int>(threadIdx.x % kWarpSize);
    const int row = first + static_cast<int>(threadIdx.x / kWarpSize) * 16 + lane / 4;
    // The first query that sees each of the lane's two keys, counted from the lane's first.
    int from[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int key = row + 8 * i;
        from[i] = (key < view.keys ? first_seeing(view, key) : view.queries) - lane % 4 * 2;
    }
    load_rows<kDim>(memory.stay[0], rows_of(args.k, batch, kv_head) + first * args.k.row, args.k.row, view.keys - first,
                    all.dim, all.whole_pieces);
    load_rows<kDim>(memory.stay[1], rows_of(args.v, batch, kv_head) + first * args.v.row, args.v.row, view.keys - first,
                    all.dim, all.whole_pieces);
    float dk[kDk ? kDim / 2 : 1];
    float dv[kDv ? kDim / 2 : 1];
#pragma unroll
    for (float& x : dk) x = 0;
#pragma unroll
    for (float& x : dv) x = 0;
    const QueryTiles tiles = QueryTiles::of<kPassingRows>(view, first);
    for (uint32_t head = kv_head * all.group; head < (kv_head + 1) * all.group; ++head) {
        for (int tile = tiles.first; tile < tiles.end; ++tile) {
            const int query = tile * kPassingRows;
            __syncthreads(); // all threads are done with the previous tile
            load_rows<kDim>(memory.pass[0], rows_of(args.q, batch, head) + query * args.q.row, args.q.row,
                            view.queries - query, all.dim, all.whole_pieces);
            load_rows<kDim>(memory.pass[1], rows_of(args.dout, batch, head) + query * args.dout.row, args.dout.row,
                            view.queries - query, all.dim, all.whole_pieces);
            if (threadIdx.x < kPassingRows) {
                const int64_t at = (int64_t{batch} * all.heads + head) * all.padded + query + threadIdx.x;
                memory.levels[threadIdx.x] = all.levels[at];
                memory.origins[threadIdx.x] = all.origins[at];
                memory.products[threadIdx.x] = all.products[at];
            }
            __syncthreads();

            float s[kPassingRows / 2];
            multiply_tile<Number, kDim>(s, memory.stay[0], memory.pass[0]);
#pragma unroll
            for (int i = 0; i < kPassingRows / 2; ++i) {
                const int column = i / 4 * 8 + i % 2;
                const int query_of = column + lane % 4 * 2;
                const float P = weight_of(s[i], memory.origins[query_of], memory.levels[query_of], all.log2_scale);
                s[i] = column < from[i % 4 / 2] - query ? 0.0f : P;
            }
            if constexpr (kDv) add_tile<Number, kDim>(dv, s, memory.pass[1]);
            if constexpr (kDk) {
                float dp[kPassingRows / 2];
                multiply_tile<Number, kDim>(dp, memory.stay[1], memory.pass[1]);
#pragma unroll
                for (int i = 0; i < kPassingRows / 2; ++i)
                    dp[i] = __fmul_rn(s[i], __fsub_rn(dp[i], memory.products[i / 4 * 8 + i % 2 + lane % 4 * 2]));
                add_tile<Number, kDim>(dk, dp, memory.pass[0]);
            }
        }
    }
    if constexpr (kDv) store_sums<Number, kDim>(dv, 1, all, all.dv, batch, kv_head, row, view.keys);
    if constexpr (kDk) store_sums<Number, kDim>(dk, all.scale, all, all.dk, batch, kv_head, row, view.keys);
#else
    __trap();
#endif
}

template <class Number, int kDim>
__global__ void __launch_bounds__(kMmaThreads) mma_query_kernel(const __grid_constant__ MmaArgs args) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char mma_memory[];
    auto& memory = *reinterpret_cast<MmaTiles<kDim>*>(mma_memory);
    const KernelArgs& all = args.all;
    const View& view = all.view;
    const uint32_t unit = blockIdx.x / args.blocks;
    const int first = static_cast<int>(blockIdx.x - unit * args.blocks) * kStayingRows;
    const uint32_t batch = unit / all.heads;
    const uint32_t head = unit - batch * all.heads;
    const uint32_t kv_head = head / all.group;
    const int lane = static_cast<int>(threadIdx.x % kWarpSize);
    const int row = first + static_cast<int>(threadIdx.x / kWarpSize) * 16 + lane / 4;
    const int seen[2] = {view.of(row) - lane % 4 * 2, view.of(row + 8) - lane % 4 * 2};
    const float* const levels = all.levels + int64_t{unit} * all.padded + row;
    const float* const products = all.products + int64_t{unit} * all.padded + row;
    const float level[2] = {levels[0], levels[8]};
    const float* const origins = all.origins + int64_t{unit} * all.padded + row;
    const float origin[2] = {origins[0], origins[8]};
    const float product[2] = {products[0], products[8]};
    load_rows<kDim>(memory.stay[0], rows_of(args.q, batch, head) + first * args.q.row, args.q.row, view.queries - first,
                    all.dim, all.whole_pieces);
    load_rows<kDim>(memory.stay[1], rows_of(args.dout, batch, head) + first * args.dout.row, args.dout.row,
                    view.queries - first, all.dim, all.whole_pieces);
    float dq[kDim / 2];
#pragma unroll
    for (float& x : dq) x = 0;
    for (int tile = view.tiles<kPassingRows>(first, first + kStayingRows) - 1; tile >= 0; --tile) {
        const int key = tile * kPassingRows;
        __syncthreads(); // all threads are done with the previous tile
        load_rows<kDim>(memory.pass[0], rows_of(args.k, batch, kv_head) + key * args.k.row, args.k.row, view.keys - key,
                        all.dim, all.whole_pieces);
        load_rows<kDim>(memory.pass[1], rows_of(args.v, batch, kv_head) + key * args.v.row, args.v.row, view.keys - key,
                        all.dim, all.whole_pieces);
        __syncthreads();

        float s[kPassingRows / 2];
        float dp[kPassingRows / 2];
        multiply_tile<Number, kDim>(s, memory.stay[0], memory.pass[0]);
        multiply_tile<Number, kDim>(dp, memory.stay[1], memory.pass[1]);
#pragma unroll
        for (int i = 0; i < kPassingRows / 2; ++i) {
            const int which = i % 4 / 2;
            const float P = weight_of(s[i], origin[which], level[which], all.log2_scale);
            dp[i] = i / 4 * 8 + i % 2 >= seen[which] - key ? 0.0f : __fmul_rn(P, __fsub_rn(dp[i], product[which]));
        }
        add_tile<Number, kDim>(dq, dp, memory.pass[0]);
    }
    store_sums<Number, kDim>(dq, all.scale, all, all.dq, batch, head, row, view.queries);
#else
    __trap();
#endif
}

template <class Number, int kDim>
void launch_mma_for(const Args& args, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(MmaTiles<kDim>);
    const auto start = [&](auto kernel, int64_t rows, int64_t units) {
        const auto blocks = static_cast<uint32_t>((rows + kStayingRows - 1) / kStayingRows);
        const MmaArgs mma{
            KernelArgs(args, kStayingRows), args.forward.q, args.forward.k, args.forward.v, args.dout, blocks};
        HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
        kernel<<<blocks* static_cast<uint32_t>(units), kMmaThreads, kBytes, stream>>>(mma);
        HW4_CUDA_LAUNCHED("mma_gradients");
    };
    if constexpr (kDim <= 128) {
        start(mma_key_kernel<Number, kDim, true, true>, args.forward.keys, args.kv_units());
    } else {
        start(mma_key_kernel<Number, kDim, false, true>, args.forward.keys, args.kv_units());
        start(mma_key_kernel<Number, kDim, true, false>, args.forward.keys, args.kv_units());
    }
    start(mma_query_kernel<Number, kDim>, args.forward.queries, args.forward.units());
}

template <class Number>
void launch_mma_for(const Args& args, cudaStream_t stream) {
    if (args.forward.dim <= 64)
        launch_mma_for<Number, 64>(args, stream);
    else if (args.forward.dim <= 128)
        launch_mma_for<Number, 128>(args, stream);
    else
        launch_mma_for<Number, 256>(args, stream);
}

} // namespace

size_t mma_gradient_bytes(int64_t dim) {
    return dim <= 64 ? sizeof(MmaTiles<64>) : dim <= 128 ? sizeof(MmaTiles<128>) : sizeof(MmaTiles<256>);
}

void launch_mma(const Args& args, const Device&, cudaStream_t stream) {
    prepare_rows(args, stream);
    if (args.forward.type == NumberType::bf16)
        launch_mma_for<Bf16>(args, stream);
    else
        launch_mma_for<Fp16>(args, stream);
}

} // namespace hw4::gpu::half_backward
