// padded_tiles: the kernel this project is named for.
//
// Idea      32 query rows x 32 keys at a time from shared memory, rows padded so that 32 lanes reading down a
//           column meet 32 different banks.
// Who       A block of 32 warps takes 32 query rows of a batch and walks over all keys. Warp = query row. For
//           the scores lane = key, for the output lane = column (one in each chunk of 32 columns).
// Memory    Q tile 32 x (D + 4), one chunk of K or V 32 x 33, weights 32 x 36: 13.1 KiB for D = 32, 17.1 for 64,
//           41.1 for 256, under the 48 KiB that every card grants. K and V pass through one buffer in chunks of
//           32 columns, so that D = 256 fits. Registers: at most 64, for 1024 threads.
// Order     The contract's: a chunk of K is one block of the score's columns; lanes 0..7 of a
//           warp hold the eight sums; p*v in key order; segments folded in registers.
// Measured  H200: t28 36.1 ms (7.6 TFLOP/s), t29 78.0 ms (7.1).
// Limits    5 shared loads for 4 fma. At a load a clock and multiprocessor that alone bounds it near 13 TFLOP/s on an
//           H200, a fifth of what its fma units do.
#include "../check.h"
#include "common.cuh"
#include "exact_kernels.h"

namespace hw4::gpu {
namespace {

constexpr int kTile = kKeyTile; // Br = Bc = 32; also the width of a warp
static_assert(kTile == kScoreColumns, "a chunk of columns is one block of the score");

template <int kChunks>
struct Tiles {
    // Read as float4 by all lanes of a warp at one address (a broadcast): padded by 4 to keep rows aligned.
    alignas(16) float q[kTile][kChunks * kTile + 4];
    alignas(16) float p[kTile][kTile + 4];
    // For the scores lane j reads kv[j][t]: with 32 floats a row all lanes would meet one bank, with 33 none do.
    float kv[kTile][kTile + 1];
};

// One element of a matrix [tokens][dim], zero outside it.
__device__ float element_or_zero(const float* matrix, size_t stride, int64_t row, int column, int64_t rows,
                                 int columns) {
    return row < rows && column < columns ? matrix[static_cast<size_t>(row) * stride + column] : 0.0f;
}

template <int kChunks>
__global__ __launch_bounds__(kTile* kTile) void padded_tiles(KernelArgs args) {
    constexpr int kUnroll = kChunks == 8 ? 2 : kTile / 4; // fully unrolled, eight chunks would spill registers
    __shared__ Tiles<kChunks> tiles;
    const int lane = threadIdx.x;
    const int warp = threadIdx.y; // the query row in the tile; when loading, the tile row this warp fills
    const int64_t row_tiles = (args.tokens + kTile - 1) / kTile;
    const int64_t batch = blockIdx.x / row_tiles;
    const int64_t row = blockIdx.x % row_tiles * kTile + warp;
    const BatchMatrices m = matrices_of(args, batch);

    const auto load_chunk = [&](const float* gmem, int64_t first_key, int chunk) {
        __syncthreads(); // all warps have read what kv held before
        tiles.kv[warp][lane] =
            element_or_zero(gmem, args.qkv_stride, first_key + warp, chunk * kTile + lane, args.tokens, args.dim);
        __syncthreads(); // kv is complete
    };

    // Each warp reads only its own row of q: no block barrier needed.
    for (int chunk = 0; chunk < kChunks; ++chunk)
        tiles.q[warp][chunk * kTile + lane] =
            element_or_zero(m.q, args.qkv_stride, row, chunk * kTile + lane, args.tokens, args.dim);
    __syncwarp();

    Reference reference = empty_reference();
    Reference total_reference = empty_reference();
    float lane_sum = 0.0f; // meaningful in lanes 0..7
    float total_l = 0.0f;
    float o[kChunks] = {};
    float total_o[kChunks] = {};

    for (int64_t first_key = 0; first_key < args.tokens; first_key += kTile) {
        const bool key_exists = first_key + lane < args.tokens;

        float s = 0.0f;
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
            load_chunk(m.k, first_key, chunk);
            float block = 0.0f;
#pragma unroll kUnroll
            for (int t = 0; t < kTile; t += 4) {
                const float4 q = *reinterpret_cast<const float4*>(&tiles.q[warp][chunk * kTile + t]);
                block = fused(q.x, tiles.kv[lane][t + 0], block);
                block = fused(q.y, tiles.kv[lane][t + 1], block);
                block = fused(q.z, tiles.kv[lane][t + 2], block);
                block = fused(q.w, tiles.kv[lane][t + 3], block);
            }
            s += block;
        }

        const float tile_max = warp_max(key_exists ? s : -HUGE_VALF);
        if (!reference.covers(tile_max)) { // the same for the whole warp
            const Reference raised = reference_at(tile_max, args.scale);
            const float alpha = rescale_factor(reference, raised, args.scale);
            lane_sum *= alpha;
            for (int chunk = 0; chunk < kChunks; ++chunk) o[chunk] *= alpha;
            reference = raised;
        }

        __syncwarp(); // the warp has read its row of p of the previous tile
        tiles.p[warp][lane] = key_exists ? reference.weight(s, args.scale) : 0.0f;
        __syncwarp(); // the row is complete
        if (lane < kSumLanes)
            for (int i = 0; i < kLaneKeys; ++i) lane_sum += tiles.p[warp][lane * kLaneKeys + i];

#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
            load_chunk(m.v, first_key, chunk);
#pragma unroll kUnroll
            for (int j = 0; j < kTile; j += 4) {
                const float4 p = *reinterpret_cast<const float4*>(&tiles.p[warp][j]);
                o[chunk] = fused(p.x, tiles.kv[j + 0][lane], o[chunk]);
                o[chunk] = fused(p.y, tiles.kv[j + 1][lane], o[chunk]);
                o[chunk] = fused(p.z, tiles.kv[j + 2][lane], o[chunk]);
                o[chunk] = fused(p.w, tiles.kv[j + 3][lane], o[chunk]);
            }
        }

        const int64_t next_key = first_key + kTile;
        if (next_key % kSegmentKeys == 0 || next_key >= args.tokens) {
            const float alpha = rescale_factor(total_reference, reference, args.scale);
            total_l = fused(total_l, alpha, closed_lanes(lane_sum));
            lane_sum = 0.0f;
            for (int chunk = 0; chunk < kChunks; ++chunk) {
                total_o[chunk] = fused(total_o[chunk], alpha, o[chunk]);
                o[chunk] = 0.0f;
            }
            total_reference = reference;
        }
    }

    if (row >= args.tokens) return;
    const float inv = 1.0f / total_l;
    float* out = m.out + static_cast<size_t>(row) * args.out_stride;
    for (int chunk = 0; chunk < kChunks; ++chunk)
        if (chunk * kTile + lane < args.dim) out[chunk * kTile + lane] = result(total_o[chunk], inv);
}

template <int kChunks>
void launch(const KernelArgs& args, cudaStream_t stream) {
    const int64_t blocks = args.batches * ((args.tokens + kTile - 1) / kTile);
    padded_tiles<kChunks><<<static_cast<unsigned>(blocks), dim3(kTile, kTile), 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("padded_tiles");
}

} // namespace

void launch_padded_tiles(const KernelArgs& args, cudaStream_t stream) {
    if (args.dim <= 32) return launch<1>(args, stream);
    if (args.dim <= 64) return launch<2>(args, stream);
    if (args.dim <= 128) return launch<4>(args, stream);
    return launch<8>(args, stream);
}

} // namespace hw4::gpu
