// mma_bf16, mma_fp16: attention in bf16 or fp16 on the tensor cores of any GPU from compute capability 8.0 on; plain.
//
// Idea      Scores, weights and values of a tile of keys one after the other; weights stay in registers.
// Work      A block of four warps for each 64 query rows of a head, 16 rows per warp.
// Memory    Q, and a tile of K and of V: 64 keys, for d > 128 32.
// Overlap   Between the blocks of a multiprocessor.
// Order     As in wgmma_half.cu, with smaller tiles.
// Limits    No copy is in flight while a block computes.
#include "src/gpu/half/forward/mma_rows.cuh"
#include "src/gpu/half/forward/output_rows.cuh"
#include "src/gpu/half/kernels.h"

#include "src/gpu/device/check.h"

namespace hw4::gpu::half_forward {
namespace {

constexpr int kRows = 64;

template <int kDim>
struct Tiles {
    static constexpr int kKeys = kDim > 128 ? 32 : 64;
    static constexpr int kRow = kDim + 8; // elements: eight rows' 16-byte pieces are in different banks

    alignas(16) uint16_t queries[kRows][kRow];
    alignas(16) uint16_t keys[kKeys][kRow];
    alignas(16) uint16_t values[kKeys][kRow];
};

template <class Number, int kDim>
__global__ void __launch_bounds__(kMmaThreads)
    mma_kernel(const __grid_constant__ KernelArgs args, Operand q, Operand k, Operand v) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char mma_memory[];
    using Memory = Tiles<kDim>;
    constexpr int kKeys = Memory::kKeys;
    auto& memory = *reinterpret_cast<Memory*>(mma_memory);
    const Job job = args.work.job(blockIdx.x);
    const int warp_row = static_cast<int>(threadIdx.x / kWarpSize) * 16;
    const int lane = static_cast<int>(threadIdx.x % kWarpSize);
    const int row = job.first + warp_row + lane / 4;
    const int seen[2] = {args.view.of(row) - lane % 4 * 2, args.view.of(row + 8) - lane % 4 * 2};
    // The first row of a head.
    const auto rows_of = [](const Operand& of, uint32_t batch, uint32_t head) {
        return static_cast<const uint16_t*>(of.at) + batch * of.batch + head * of.head;
    };
    const uint16_t* const keys = rows_of(k, job.batch, job.head / args.group);
    const uint16_t* const values = rows_of(v, job.batch, job.head / args.group);
    load_rows<kDim>(memory.queries, rows_of(q, job.batch, job.head) + job.first * q.row, q.row,
                    args.view.queries - job.first, args.dim, args.whole_pieces);

    RunningRows rows;
    float o[kDim / 2];
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) o[i] = 0;
    for (int tile = args.view.tiles<kKeys>(job.first, job.first + kRows) - 1; tile >= 0; --tile) {
        const int first = tile * kKeys;
        __syncthreads(); // all threads are done with the previous tile
        load_rows<kDim>(memory.keys, keys + first * k.row, k.row, args.view.keys - first, args.dim, args.whole_pieces);
        load_rows<kDim>(memory.values, values + first * v.row, v.row, args.view.keys - first, args.dim,
                        args.whole_pieces);
        __syncthreads();

        float s[kKeys / 2];
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) s[i] = 0;
#pragma unroll
        for (int column = 0; column < kDim; column += 16) {
            uint32_t a[4];
            load_matrices<false>(a, &memory.queries[warp_row + lane % 16][column + lane / 16 * 8]);
#pragma unroll
            for (int key = 0; key < kKeys; key += 16) {
                uint32_t b[4];
                load_matrices<false>(b, &memory.keys[key + lane % 8 + lane / 16 * 8][column + lane / 8 % 2 * 8]);
                Number::multiply(s + key / 2, a, b[0], b[1]);
                Number::multiply(s + key / 2 + 4, a, b[2], b[3]);
            }
        }
        hide_unseen(s, seen[0] - first, seen[1] - first);
        float factor[2];
        rows.weigh(s, args.log2_scale, factor);
        multiply_rows(o, factor);
        uint32_t p[kKeys / 16][4];
        pack_weights<Number>(p, s);
#pragma unroll
        for (int key = 0; key < kKeys; key += 16) {
#pragma unroll
            for (int column = 0; column < kDim; column += 16) {
                uint32_t b[4];
                load_matrices<true>(b, &memory.values[key + lane % 16][column + lane / 16 * 8]);
                Number::multiply(o + column / 2, p[key / 16], b[0], b[1]);
                Number::multiply(o + column / 2 + 4, p[key / 16], b[2], b[3]);
            }
        }
    }
    store_job<Number, false>(args, job, row, rows, o);
#else
    __trap();
#endif
}

template <class Number, int kDim>
void launch_for(const Args& args, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(Tiles<kDim>);
    const KernelArgs kernel_args(args, kRows, kRows);
    const auto kernel = mma_kernel<Number, kDim>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    kernel<<<kernel_args.work.jobs, kMmaThreads, kBytes, stream>>>(kernel_args, args.q, args.k, args.v);
    HW4_CUDA_LAUNCHED("mma_kernel");
}

template <class Number>
void launch_for(const Args& args, cudaStream_t stream) {
    if (args.dim <= 64)
        launch_for<Number, 64>(args, stream);
    else if (args.dim <= 128)
        launch_for<Number, 128>(args, stream);
    else
        launch_for<Number, 256>(args, stream);
}

} // namespace

size_t mma_shared_bytes(int64_t dim) {
    return dim <= 64 ? sizeof(Tiles<64>) : dim <= 128 ? sizeof(Tiles<128>) : sizeof(Tiles<256>);
}

void launch_mma(const Args& args, const Device&, cudaStream_t stream) {
    if (args.type == NumberType::bf16)
        launch_for<Bf16>(args, stream);
    else
        launch_for<Fp16>(args, stream);
}

} // namespace hw4::gpu::half_forward
