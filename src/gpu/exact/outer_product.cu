// outer_product: register tiles, both products as outer products from transposed shared memory.
//
// Idea      A thread holds an 8 x 8 tile of scores (8 x 4 for d = 128) and an 8 x 8 (8 x 16) tile of the output. With
//           Q, K and the weights TRANSPOSED in shared memory every step is an outer product of two short vectors read
//           as float4: 64 fma for 4 loads.
//           The contract's M is 0 while a row's scores stay between -8 (its first tile's largest) and 72. So the loop
//           keeps no maximum: it only remembers the largest |score|, and a block whose rows left the range does them
//           again by plain_row.cuh.
// Who       Warp = 8*R query rows (R lanes down, C = 32/R lanes across), all keys of a tile. The same warp owns the
//           rows in both products, so weights pass through a warp-private buffer.
// Memory    42.5 KiB a block at d = 32 (2 warps, 4 blocks a multiprocessor), 104.5 at 64 (4 warps, 2 blocks), 201 at
//           128 (8 warps, 1 block). 255 registers; the few that spill do so outside the inner loops.
// Order     Scores: blocks of 32 columns, t ascending. Sums: a thread's keys belong to one sum lane (C = 8) or two
//           (C = 4). p*v: keys ascending. Segments: totals wait in the output buffer.
// Barriers  Two a tile. K of the next tile travels in registers while p*v runs, when the scores' registers are free.
// Measured  H200, TFLOP/s: t28 39.2, t30 39.3, t22 38.1; t29 38.8, t11 35.1, t13 37.2; N 16384, d 128, B 4: 38.7.
//           Profiled at t28 with the fma of a step ordered by columns (37.9): 73 % of the issue slots busy, 85 % of
//           what is issued fma, 2.0 wavefronts a shared load and next to no conflicts; stalls are dispatch (0.21 warps
//           an issue), shared loads (0.16) and fetching instructions (0.11).
// No help   On the way there, each against its neighbour: operands not loaded one step ahead 36.1 (38.8 with); the
//           output chain unrolled by 32 or 64 instead of 16, 32 and 16 (the code no longer fits); the first 32 columns'
//           scores parked in shared memory instead of registers 37.0 (38.2); segments of 1024 keys and one chain of 64
//           columns 40.4, but they miss the accuracy.
#include "../check.h"
#include "exact_kernels.h"
#include "plain_row.cuh"
#include "segment_totals.cuh"
#include "tile_loads.cuh"

namespace hw4::gpu {
namespace {

template <class T>
struct alignas(16) Shared {
    float qt[T::kDim][T::kBlockRows];
    float kt[T::kDim][T::kKeys];
    float v[T::kKeys][T::kDim];
    float p[T::kWarps][T::kKeys][T::kPStride]; // [slot][row], see slot_of
    float total_l[T::kBlockRows];
};

// Key 4*cc + 4*C*h + j of a tile has its weights in slot cc + C*(j + 4*h).
template <class T>
__device__ __forceinline__ constexpr int slot_of(int key) {
    return key / 4 % T::kC + T::kC * (key % 4 + 4 * (key / (4 * T::kC)));
}

// Whether the largest score of some row's first 32 keys is so low that the contract's M would not start at 0.
template <class T>
__device__ __forceinline__ bool starts_low(const float (&s)[kRowsPerThread][T::kKT], int across, int tokens,
                                           Scale scale) {
    constexpr int kHere = kKeyTile / T::kC; // a thread's share of the first 32 keys
    bool low = false;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
        float most = -HUGE_VALF;
#pragma unroll
        for (int j = 0; j < kHere; ++j)
            if (j / 4 * 4 * T::kC + 4 * across + j % 4 < tokens) most = larger(most, s[i][j]);
        most = larger(most, __shfl_xor_sync(kAllLanes, most, 1));
        most = larger(most, __shfl_xor_sync(kAllLanes, most, 4));
        if (T::kC == 8) most = larger(most, __shfl_xor_sync(kAllLanes, most, 8));
        low = low || most < -(kFootroom - 1.0f) * scale.inv_c;
    }
    return low;
}

template <class T>
__global__ __launch_bounds__(T::kThreads, T::kBlocks) void outer_product(const __grid_constant__ KernelArgs args) {
#if __CUDA_ARCH__ >= 800 // what the table asks for; older cards need not carry the code
    extern __shared__ float4 memory[];
    Shared<T>& shared = *reinterpret_cast<Shared<T>*>(memory);
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    // A 16-byte shared load takes half the time when lanes n and n^1, or n and n^2, read the same address: so bit 0
    // moves across only, bit 1 down only.
    const int across = T::kC == 8 ? (lane & 1) | (lane >> 1 & 6) : (lane & 1) | (lane >> 1 & 2);
    const int down = T::kC == 8 ? (lane >> 1 & 1) | (lane >> 3 & 2) : (lane >> 1 & 1) | (lane >> 2 & 6);

    const int tokens = static_cast<int>(args.tokens);
    const int64_t row_blocks = (args.tokens + T::kBlockRows - 1) / T::kBlockRows;
    const int64_t batch = blockIdx.x / row_blocks;
    const int first_row = static_cast<int>(blockIdx.x % row_blocks) * T::kBlockRows;
    const BatchMatrices m = matrices_of(args, batch);
    const int warp_row = warp * T::kWarpRows;

    {
        TransposedTile<T, T::kBlockRows> q;
        q.load(m.q, first_row, args);
        q.store(shared.qt);
        TransposedTile<T, T::kKeys> k;
        k.load(m.k, 0, args);
        k.store(shared.kt);
    }
    __syncthreads(); // Q and the first K tile are complete

    float o[kRowsPerThread][T::kCT] = {};
    float sums[kRowsPerThread][T::kSums] = {};
    const Position at{first_row, warp_row, across, down};
    float largest = 0.0f; // |score|
    bool low_start = false;
    bool first_segment = true;

    for (int first_key = 0; first_key < tokens; first_key += T::kKeys) {
        const int next_key = first_key + T::kKeys;
        fetch_values<T>(shared.v, m.v, first_key, args);

        float s[kRowsPerThread][T::kKT];
        {
            const float* q = &shared.qt[0][warp_row + 4 * down];
            const float* k = &shared.kt[0][4 * across];
#pragma unroll
            for (int first = 0; first < T::kDim; first += kScoreColumns) {
                float block[kRowsPerThread][T::kKT] = {};
                const auto load = [&](int t, float(&a)[kRowsPerThread], float(&b)[T::kKT]) {
                    load_fragment(a, q + (first + t) * T::kBlockRows, 4 * T::kR);
                    load_fragment(b, k + (first + t) * T::kKeys, 4 * T::kC);
                };
                if (T::kRolled)
                    rolled_chain<kScoreColumns, T::kRolledSteps>(block, load);
                else
                    chain<kScoreColumns, T::kScoreUnroll>(block, load);
#pragma unroll
                for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
                    for (int j = 0; j < T::kKT; ++j) s[i][j] = first == 0 ? block[i][j] : s[i][j] + block[i][j];
            }
        }

        if (first_key == 0) low_start = starts_low<T>(s, across, tokens, args.scale);

            // Scores to weights; the largest is remembered before it is overwritten.
#pragma unroll
        for (int j = 0; j < T::kKT; ++j) {
#pragma unroll
            for (int i = 0; i < kRowsPerThread; ++i) {
                largest = fmaxf(largest, fabsf(s[i][j]));
                s[i][j] = exp2_scaled(s[i][j], args.scale.c, kRoundToInt);
            }
        }
        if (next_key > tokens) {
#pragma unroll
            for (int j = 0; j < T::kKT; ++j)
                if (first_key + j / 4 * 4 * T::kC + 4 * across + j % 4 >= tokens)
#pragma unroll
                    for (int i = 0; i < kRowsPerThread; ++i) s[i][j] = 0.0f;
        }
        float(*p)[T::kPStride] = shared.p[warp];
#pragma unroll
        for (int j = 0; j < T::kKT; ++j) {
#pragma unroll
            for (int i = 0; i < kRowsPerThread; ++i) sums[i][j / 4 % T::kSums] += s[i][j];
            const int slot = across + T::kC * j;
            store4(&p[slot][4 * down], make_float4(s[0][j], s[1][j], s[2][j], s[3][j]));
            store4(&p[slot][4 * T::kR + 4 * down], make_float4(s[4][j], s[5][j], s[6][j], s[7][j]));
        }

        __pipeline_wait_prior(0);
        __syncthreads(); // V and this warp's weights are complete; everybody is done with K

        TransposedTile<T, T::kKeys> next_k;
        const bool more = next_key < tokens;
        if (more) next_k.load(m.k, next_key, args);
        {
            const float* weights = &p[0][4 * down];
            const float* v = &shared.v[0][4 * across];
            const auto load = [&](int key, float(&a)[kRowsPerThread], float(&b)[T::kCT]) {
                load_fragment(a, weights + slot_of<T>(key) * T::kPStride, 4 * T::kR);
                load_fragment(b, v + key * T::kDim, 4 * T::kC);
            };
            if (T::kRolled)
                rolled_chain<T::kKeys, T::kRolledSteps>(o, load);
            else
                chain<T::kKeys, T::kOutputUnroll>(o, load);
        }
        if (more) next_k.store(shared.kt);
        if (!more || next_key % kSegmentKeys == 0) {
            fold<T>(o, sums, shared.total_l, at, m, args, first_segment, !more);
            first_segment = false;
        }
        __syncthreads(); // the next K tile is complete; everybody is done with V
    }

    const bool strayed = low_start || largest > (kHeadroom - 1.0f) * args.scale.inv_c;
    if (!__syncthreads_or(strayed)) return;
    for (int row = warp; row < T::kBlockRows && first_row + row < tokens; row += T::kWarps)
        attend_plain_row(args, batch, first_row + row);
#endif
}

template <class T>
void launch(const KernelArgs& args, cudaStream_t stream) {
    const int64_t blocks = args.batches * ((args.tokens + T::kBlockRows - 1) / T::kBlockRows);
    HW4_CUDA(cudaFuncSetAttribute(outer_product<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared<T>)));
    outer_product<T><<<static_cast<unsigned>(blocks), T::kThreads, sizeof(Shared<T>), stream>>>(args);
    HW4_CUDA_LAUNCHED("outer_product");
}

// d, all columns there, lanes across, keys per thread, warps, blocks per multiprocessor
template <bool kWhole>
using Tiling32 = Tiling<32, kWhole, 4, 8, 2, 4>;
template <bool kWhole>
using Tiling64 = Tiling<64, kWhole, 8, 8, 4, 2>;
template <bool kWhole>
using Tiling128 = Tiling<128, kWhole, 8, 4, 8, 1>;

template <template <bool> class TilingOf>
void launch_for(const KernelArgs& args, cudaStream_t stream) {
    if (args.dim == TilingOf<true>::kDim) return launch<TilingOf<true>>(args, stream);
    return launch<TilingOf<false>>(args, stream);
}

} // namespace

size_t shared_bytes_outer_product(int dim) {
    if (dim <= 32) return sizeof(Shared<Tiling32<true>>);
    if (dim <= 64) return sizeof(Shared<Tiling64<true>>);
    return sizeof(Shared<Tiling128<true>>);
}

void launch_outer_product(const KernelArgs& args, cudaStream_t stream) {
    if (args.dim <= 32) return launch_for<Tiling32>(args, stream);
    if (args.dim <= 64) return launch_for<Tiling64>(args, stream);
    return launch_for<Tiling128>(args, stream);
}

} // namespace hw4::gpu
