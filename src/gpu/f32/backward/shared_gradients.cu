// shared_gradients: tiles in shared memory.
//
// Idea      32 rows share every other row: a block loads 32 of the others at a time into shared memory, where
//           plain_gradients reads them for each row. It uses what forward's rungs have taught: rows 33 floats apart,
//           loads along the rows, unrolled loops, sums in registers.
// Work      A block of 32 warps takes 32 rows of a unit and walks over all others that any of them sees; warp = row.
//           For the pairs lane = other row, for the sums lane = column (one in each chunk of 32 columns).
// Memory    The two operands of its rows 32 x D each, one chunk of the others 32 x 33, dS and P 32 x 32 each: 20.1 KiB
//           for D = 32, 28.1 for 64, 44.1 for 128. With D = 256 that would be 76, and the registers of 32 warps would
//           not hold the sums: blocks have 16 rows then, 40.1 KiB. Every chunk of the others is loaded once for the
//           pairs and once more for the sums.
// Order     The contract's: a chunk is one chain of the products; pairs that do not exist are carried as +0.
// Limits    5 shared loads for 4 fma, and every pair is computed twice.
#include "src/gpu/device/check.h"
#include "src/gpu/f32/backward/gradient_args.h"
#include "src/gpu/f32/backward/gradient_rows.cuh"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {
namespace {

template <class OwnRows, int kChunkCount>
struct GradientTiling {
    using Own = OwnRows;
    static constexpr int kChunks = kChunkCount;
    static constexpr int kRows = kChunks == 8 ? 16 : 32;
    static constexpr int kThreads = kRows * kWarpSize;
    static constexpr int kSums = Own::kSums;
    // Steps of a loop over a tile: with eight chunks of sums in registers all 32 at once make some architectures spill.
    static constexpr int kSteps = kSums * kChunks >= 8 ? kTileRows / 2 : kTileRows;
};

// A block's tiles. Only the others are read down their columns; all lanes of a warp read the rest at one address.
template <class T>
struct GradientTiles {
    alignas(16) float own[2][T::kChunks][T::kRows][kChunkColumns];
    alignas(16) float factors[T::kSums][T::kRows][kTileRows];
    float others[kTileRows][kChunkColumns + 1];
};

// Fills a tile with rows and columns of an operand, zeros outside it. All threads of the block take part.
template <class T, int kCount, int kRowFloats>
__device__ __forceinline__ void load_chunk(float (&to)[kCount][kRowFloats], const TwoOperands& from, int operand,
                                           int64_t first_row, int chunk, int dim) {
    static_assert(kCount * kChunkColumns % T::kThreads == 0, "every thread loads as many floats");
    const int column = static_cast<int>(threadIdx.x) % kChunkColumns;
    const bool column_exists = chunk * kChunkColumns + column < dim;
#pragma unroll
    for (int first = 0; first < kCount; first += T::kRows) {
        const int row = first + static_cast<int>(threadIdx.x) / kChunkColumns;
        const bool exists = column_exists && first_row + row < from.rows;
        to[row][column] = exists ? from.of(operand, first_row + row)[chunk * kChunkColumns + column] : 0.0f;
    }
}

// Loads the next chunk of the others over the previous one.
template <class T>
__device__ __forceinline__ void bring(GradientTiles<T>& tiles, const TwoOperands& others, int operand, int64_t tile,
                                      int chunk, int dim) {
    __syncthreads(); // all warps have read the previous chunk
    load_chunk<T>(tiles.others, others, operand, tile, chunk, dim);
    __syncthreads(); // the chunk is complete; before the first chunk, so are the block's own rows
}

// For the warp's row and the lane's other row.
template <class T>
__device__ __forceinline__ float product(GradientTiles<T>& tiles, const TwoOperands& others, int operand, int64_t tile,
                                         int dim) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    float sum = 0.0f;
#pragma unroll 1
    for (int chunk = 0; chunk < T::kChunks; ++chunk) {
        bring<T>(tiles, others, operand, tile, chunk, dim);
        float chain = 0.0f;
#pragma unroll T::kSteps
        for (int t = 0; t < kChunkColumns; ++t)
            chain = fused(tiles.own[operand][chunk][warp][t], tiles.others[lane][t], chain);
        sum += chain;
    }
    return sum;
}

// Adds a tile of the others to the warp's row, each with its factor.
template <class T, class Sums>
__device__ __forceinline__ void add_tile(Sums& sums, GradientTiles<T>& tiles, const TwoOperands& others, int64_t tile,
                                         int dim) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
    for (int sum = 0; sum < T::kSums; ++sum)
#pragma unroll
        for (int chunk = 0; chunk < T::kChunks; ++chunk) {
            bring<T>(tiles, others, sum, tile, chunk, dim);
#pragma unroll T::kSteps
            for (int other = 0; other < kTileRows; ++other)
                sums.chain[sum][chunk] =
                    fused(tiles.factors[sum][warp][other], tiles.others[other][lane], sums.chain[sum][chunk]);
        }
}

template <class T>
__global__ __launch_bounds__(T::kThreads, 1) void shared_gradients(const __grid_constant__ GradientArgs args) {
    using Own = typename T::Own;
    __shared__ GradientTiles<T> tiles;
    static_assert(sizeof tiles <= 48 << 10, "what every GPU allows a block");
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const int dim = args.forward.dim;
    const int64_t rows = Own::rows(args);
    const int64_t row_blocks = (rows + T::kRows - 1) / T::kRows;
    const auto unit = static_cast<uint32_t>(blockIdx.x / row_blocks);
    const int64_t first_row = blockIdx.x % row_blocks * T::kRows;
    const int64_t end_row = first_row + T::kRows < rows ? first_row + T::kRows : rows;
    const int64_t row = first_row + warp < end_row ? first_row + warp : end_row - 1; // a row with facts to read
    const OtherRows seen = Own::range(args, row, row + 1);
    const OtherRows seen_by_block = Own::range(args, first_row, end_row);

    const TwoOperands own = Own::own(args, unit);
#pragma unroll 1
    for (int chunk = 0; chunk < T::kChunks; ++chunk) {
        load_chunk<T>(tiles.own[0][chunk], own, 0, first_row, chunk, dim);
        load_chunk<T>(tiles.own[1][chunk], own, 1, first_row, chunk, dim);
    }

    LaneSums<T::kSums, T::kChunks> sums;
    for (uint32_t head = 0; head < Own::heads(args); ++head) {
        const uint32_t other_unit = Own::other_unit(args, unit, head);
        const TwoOperands others = Own::others(args, other_unit);
        for (int64_t taken = 0; taken < seen_by_block.segments(); ++taken) {
            const int64_t segment = seen_by_block.segment<Own::kDescending>(taken);
#pragma unroll 1
            for (int64_t tile = segment; tile < segment + kSegmentRows; tile += kTileRows) {
                const float score = product<T>(tiles, others, 0, tile, dim);
                const float dP = product<T>(tiles, others, 1, tile, dim);
                Factors factors{};
                if (seen.has(tile + lane))
                    factors = factors_of(args, score, dP, Own::facts(args, unit, row, other_unit, tile + lane));
#pragma unroll // the warp has read the previous tile's factors: there were barriers since
                for (int sum = 0; sum < T::kSums; ++sum) tiles.factors[sum][warp][lane] = factors.of[sum];
                add_tile<T>(sums, tiles, others, tile, dim);
            }
            sums.close_segment();
            if (seen_by_block.ends_group<Own::kDescending>(taken)) sums.close_group();
        }
        if (first_row + warp < end_row) close_head<Own>(sums, args, unit, row, head, lane);
    }
}

template <class T>
void launch_tiling(const GradientArgs& args, cudaStream_t stream) {
    const int64_t blocks = T::Own::units(args) * ((T::Own::rows(args) + T::kRows - 1) / T::kRows);
    shared_gradients<T><<<static_cast<unsigned>(blocks), T::kThreads, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("shared_gradients");
}

template <class Own>
void launch_for(const GradientArgs& args, cudaStream_t stream) {
    const int dim = args.forward.dim;
    if (dim <= 1 * kChunkColumns) return launch_tiling<GradientTiling<Own, 1>>(args, stream);
    if (dim <= 2 * kChunkColumns) return launch_tiling<GradientTiling<Own, 2>>(args, stream);
    if (dim <= 4 * kChunkColumns) return launch_tiling<GradientTiling<Own, 4>>(args, stream);
    return launch_tiling<GradientTiling<Own, 8>>(args, stream);
}

} // namespace

void launch_shared_gradients(const Launch& launch, cudaStream_t stream) {
    const GradientArgs args = gradient_args(launch, take_first_steps(launch, stream));
    if (args.gives_dq()) launch_for<ForQueries>(args, stream);
    if (args.gives_dk_dv()) launch_for<ForKeys>(args, stream);
}

} // namespace hw4::gpu
