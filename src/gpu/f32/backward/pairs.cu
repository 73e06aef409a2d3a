#include <algorithm>

#include "src/gpu/device/check.h"
#include "src/gpu/f32/backward/round_args.h"
#include "src/gpu/f32/forward/register_tile.cuh"
#include "src/gpu/f32/forward/tile_copies.cuh"

namespace hw4::gpu {

// Pairs: P and dS of a round, each computed once and stored in memory.
//
// Idea      Flash attention avoids memory of N x N numbers because tensor cores outrun it. Float32 fma do not: two
//           products of d columns per pair take longer than its 8 bytes.
// Work      As in forward's tile kernel: 128 query rows (64 with little shared memory) against tiles of 64 keys, 8 x 8
//           pairs per thread (8 x 4 for d > 64), both products as outer products from transposed shared memory.
// Loop      over products: S of a tile from Q and K, then dP from dO and V, by the same code with other addresses; two
//           products one after the other would be twice the code, which the multiprocessor could not fetch in time.
//           The next product's keys or values are copied meanwhile.
// No help   P and dS kept in registers and stored a few rows at a time during the next product, 0.3 %.

template <class T>
struct alignas(16) PairMemory {
    // Each with a spare step: prefetching reads it, but no step uses it.
    float qt[T::kDim + kSpareSteps][T::kQStride];
    float gt[T::kDim + kSpareSteps][T::kQStride];
    float kt[T::kDim + kSpareSteps][T::kKStride];
    float vt[T::kDim + kSpareSteps][T::kKStride];
    float inv[T::kRows]; // of each row of the block
    float D[T::kRows];
    float M[T::kRows];
    float origin[T::kRows];
    unsigned drawn;
};

// The product of a tile: chains of 32 columns, added in order. copy_rows(round) starts asynchronous copies, a few in
// each round: all at once they delay the loads of the steps. Loops are short: unrolled, 70 KB of code took a sixth
// longer.
template <class T, class CopyRows>
__device__ __forceinline__ void tile_product(float (&e)[kRowsPerThread][T::kKT], Factors& at, CopyRows copy_rows) {
    constexpr bool kPeeled = T::kDim > 64; // measured
    Fragments<T::kKT> f;
    ScoreSteps<T>::load(f, 0, at, 0);
#pragma unroll
    for (int n = 0; n < T::kDim / kScoreColumns; ++n) {
        float block[kRowsPerThread][T::kKT];
        if (!kPeeled) clear(block);
        int round = 0;
        chain<ScoreSteps<T>, kRoundSteps, true, kPeeled>(block, f, at, at.b + ScoreSteps<T>::b(kScoreColumns),
                                                         [&] { copy_rows(round++); });
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
            for (int j = 0; j < T::kKT; ++j) e[i][j] = n == 0 ? block[i][j] : e[i][j] + block[i][j];
    }
    rewind<ScoreSteps<T>>(at, T::kDim);
}

// A number for each of the thread's rows.
struct OfRows {
    float x[kRowsPerThread];

    __device__ __forceinline__ OfRows(const float* of_block, const Position& at, int team) {
        load_floats(x, address_of(of_block + team * kWarpRows + 4 * at.down), kSecondRows);
    }
    __device__ __forceinline__ float operator[](int i) const { return x[i]; }
};

// Turns scores into P. Rows with M and origin 0 need only the floor.
template <class T>
__device__ __forceinline__ void form_p(float (&s)[kRowsPerThread][T::kKT], const float (&e)[kRowsPerThread][T::kKT],
                                       const PairMemory<T>& shared, bool by_zero, const Position& at, Scale scale) {
    const int team = at.warp / T::kTeam;
    const OfRows inv(shared.inv, at, team);
    if (by_zero) {
        const float floor = kDeepest * scale.inv_c;
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
            for (int j = 0; j < T::kKT; ++j)
                s[i][j] = probability(exp2_scaled(larger(e[i][j], floor), scale.c, kRoundToInt), inv[i]);
    } else {
        const OfRows M(shared.M, at, team);
        const OfRows origin(shared.origin, at, team);
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i) {
            const Reference reference = reference_of(RowStatistics{M[i], origin[i], 0.0f}, scale);
#pragma unroll
            for (int j = 0; j < T::kKT; ++j) s[i][j] = probability(reference.weight(e[i][j], scale), inv[i]);
        }
    }
}

// P = +0 if there is no pair, by selection, since such a score may have any value. dS is then zero, too.
template <class T>
__device__ __forceinline__ void clear_hidden(float (&s)[kRowsPerThread][T::kKT], const RoundArgs& args, int block_row,
                                             int first_key, const Position& at) {
    const int key = first_key + at.warp % T::kTeam * T::kWarpKeys;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
        const int row = block_row + at.warp / T::kTeam * kWarpRows + row_of(at, i);
        const int seen = row < args.rows ? args.seen(row) : 0;
#pragma unroll
        for (int j = 0; j < T::kKT; ++j) s[i][j] = key + place_of(at, j) < seen ? s[i][j] : 0.0f;
    }
}

// Stores the thread's numbers; `to` is its place in the tile.
template <class T>
__device__ __forceinline__ void store_pairs(const float (&s)[kRowsPerThread][T::kKT], float* to) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int j = 0; j < T::kKT; j += 4)
            __stcs(reinterpret_cast<float4*>(to + i * kPairRow + j / 4 * kPairLine),
                   make_float4(s[i][j], s[i][j + 1], s[i][j + 2], s[i][j + 3]));
}

// The tiles of a piece, for the block that computes it.
struct PairTiles {
    uint32_t unit; // of the round
    int block_row;
    int first_key;
    int tiles;
    int seen_by_all; // keys seen by every row of the block; 0 if some of its rows do not exist
};

// Blocks of rows in a unit: enough for the sums, which take kSumRows at a time.
template <class T>
HW4_INLINE int pair_blocks(int rows) {
    return (rows + kSumRows - 1) / kSumRows * (kSumRows / T::kRows);
}

// Under a mask rows of tiles differ in length, and the longest come first: the last query rows of all units. A row of
// tiles has the tiles that sums read, which take kSumRows keys or queries at a time.
template <class T>
__device__ __forceinline__ PairTiles pair_tiles_of(const RoundArgs& args, const PairPiece& piece) {
    const auto blocks = static_cast<uint32_t>(pair_blocks<T>(args.rows));
    const uint32_t unit = args.masked() ? piece.row % args.units : piece.row / blocks;
    const uint32_t block = args.masked() ? blocks - 1 - piece.row / args.units : piece.row % blocks;
    PairTiles tiles{};
    tiles.unit = unit;
    tiles.block_row = static_cast<int>(block) * T::kRows;
    const int seen = args.seen_by_rows(tiles.block_row / kSumRows * kSumRows, kSumRows);
    const int needed = args.masked() ? (seen + kSumRows - 1) / kSumRows * kSumRows : seen;
    const int end = (min(needed, args.keys()) + T::kKeys - 1) / T::kKeys;
    tiles.first_key = static_cast<int>(piece.first_tile) * T::kKeys;
    tiles.tiles = min(static_cast<int>(piece.end_tile), end) - static_cast<int>(piece.first_tile);
    tiles.seen_by_all = tiles.block_row + T::kRows <= args.rows ? args.seen(tiles.block_row) : 0;
    return tiles;
}

template <class T>
__global__ __launch_bounds__(T::kThreads, T::kBlocks) void pair_kernel(const __grid_constant__ RoundArgs args) {
#if __CUDA_ARCH__ >= 800
    using Lanes = PairedLanes;
    extern __shared__ float4 memory[];
    PairMemory<T>& shared = *reinterpret_cast<PairMemory<T>*>(memory);
    const ForwardArgs& forward = args.all.forward;
    const Rows q_rows = rows_of(forward.q, args.first_row + args.rows, forward.dim);
    const Rows g_rows = rows_of(args.all.dout, args.first_row + args.rows, forward.dim);
    Rows rows = rows_of(forward.k, forward.keys, forward.dim); // source of the next copy
    Rows other_rows = rows_of(forward.v, forward.keys, forward.dim);
    const Position at = position<Lanes>();
    const int team = at.warp / T::kTeam;
    const int part = at.warp % T::kTeam;
    Factors factors{address_of(&shared.qt[0][team * kWarpRows + 4 * at.down]),
                    address_of(&shared.kt[0][part * T::kWarpKeys + 4 * at.across])};
    Factors other_factors{address_of(&shared.gt[0][team * kWarpRows + 4 * at.down]),
                          address_of(&shared.vt[0][part * T::kWarpKeys + 4 * at.across])};

    for (;;) {
        if (threadIdx.x == 0) shared.drawn = atomicAdd(args.drawn, 1u);
        __syncthreads();
        if (shared.drawn >= args.queue.length()) break;
        const PairTiles tiles = pair_tiles_of<T>(args, args.queue.piece(shared.drawn));
        if (tiles.tiles <= 0) {
            __syncthreads(); // all threads have read it
            continue;
        }
        const uint32_t unit = args.unit(tiles.unit);
        const uint32_t kv_unit = forward.kv_unit(unit);
        const int first_row = args.first_row + tiles.block_row;
        {
            TransposedCopy<T, T::kQStride, true> q_copy(forward.q.of(unit), first_row, &shared.qt[0][0], at);
            q_copy.whole_tile(q_rows, T::kRows);
            TransposedCopy<T, T::kQStride, true> g_copy(args.all.dout.of(unit), first_row, &shared.gt[0][0], at);
            g_copy.whole_tile(g_rows, T::kRows);
        }
        TransposedCopy<T, T::kKStride, true> other_copy(forward.k.of(kv_unit), tiles.first_key, &shared.kt[0][0], at);
        TransposedCopy<T, T::kKStride, true> copy(forward.v.of(kv_unit), tiles.first_key, &shared.vt[0][0], at);
        other_copy.whole_tile(rows, T::kKeys);
        bool measured = false;
        for (int i = static_cast<int>(threadIdx.x); i < T::kRows; i += T::kThreads) {
            RowFacts facts{};
            if (tiles.block_row + i < args.rows) facts = args.all.row(unit, first_row + i);
            shared.inv[i] = facts.inv;
            shared.D[i] = facts.D;
            shared.M[i] = facts.M;
            shared.origin[i] = facts.origin;
            measured = measured || facts.M != 0.0f || facts.origin != 0.0f;
        }
        finish_copies();
        const bool by_zero = !__syncthreads_or(measured);
        int key = tiles.first_key;
        const uint32_t row_of_tiles = tiles.block_row / kSumRows * args.key_tiles;
        float* place = args.p + tiles.unit * args.pair_unit +
                       static_cast<size_t>(row_of_tiles + key / T::kKeys) * kPairTile +
                       (tiles.block_row % kSumRows / kWarpRows + team) * kPairTeam + part * kPairLine + 4 * at.lane;
        float s[kRowsPerThread][T::kKT]; // P of the tile
#pragma unroll 1
        for (int step = 2 * tiles.tiles; step > 0; --step) {
            float e[kRowsPerThread][T::kKT];
            tile_product<T>(e, factors, [&](int round) {
                constexpr int kCopies = T::kKeys / copy.kRowsAtOnce; // in a product
                constexpr int kEvery = T::kDim / kRoundSteps / kCopies;
                static_assert(kEvery == 1 || kEvery == 2, "rounds to a copy");
                if (kEvery == 1 || round % kEvery == 0) copy.next_rows(other_rows);
            });
            copy.rewind(T::kKeys);
            {
                const auto swapped = copy;
                copy = other_copy;
                other_copy = swapped;
                const Factors swapped_factors = factors;
                factors = other_factors;
                other_factors = swapped_factors;
                const Rows swapped_rows = rows;
                rows = other_rows;
                other_rows = swapped_rows;
            }
            const Position here = position<Lanes>();
            if (step % 2 == 0) {
                form_p<T>(s, e, shared, by_zero, here, forward.scale);
                if (key + T::kKeys > tiles.seen_by_all) clear_hidden<T>(s, args, tiles.block_row, key, here);
                store_pairs<T>(s, place);
            } else {
                const OfRows D(shared.D, here, here.warp / T::kTeam);
#pragma unroll
                for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
                    for (int j = 0; j < T::kKT; ++j) s[i][j] = score_gradient(s[i][j], e[i][j], D[i]);
                store_pairs<T>(s, place + args.ds_from_p);
                place += kPairTile;
                key += T::kKeys;
            }
            finish_copies();
            __syncthreads(); // the next keys or values are complete; all threads are done with these
        }
    }
#else
    __trap(); // the table keeps GPUs and builds below 8.0 from it
#endif
}

namespace {

// Head size, all columns exist, warps of a team, warps, blocks per multiprocessor. With P and dP, 8 x 8 each, d = 32
// has no registers for a third block.
template <bool kWhole>
using PairTiling32 = Tiling<32, kWhole, 1, 4, 2>;
template <bool kWhole>
using PairTiling64 = Tiling<64, kWhole, 1, 4, 2>;
template <bool kWhole>
using PairTiling128 = Tiling<128, kWhole, 2, 8, 1>;
// Half the rows and one block, for GPUs with too little shared memory for the others. For d > 64, 99 KB are not enough.
template <bool kWhole>
using SmallPairTiling64 = Tiling<64, kWhole, 2, 4, 1>;
template <bool kWhole>
using SmallPairTiling128 = Tiling<128, kWhole, 2, 4, 1>;

template <template <bool> class TilingOf, template <bool> class SmallTilingOf, class Visit>
void with_either(int dim, const Device& device, Visit visit) {
    if (device.shared_bytes < sizeof(PairMemory<TilingOf<true>>)) return with_columns<SmallTilingOf>(dim, visit);
    return with_columns<TilingOf>(dim, visit);
}

template <class Visit>
void with_pair_tiling(int dim, const Device& device, Visit visit) {
    if (dim <= 32) return with_columns<PairTiling32>(dim, visit);
    if (dim <= 64) return with_either<PairTiling64, SmallPairTiling64>(dim, device, visit);
    return with_either<PairTiling128, SmallPairTiling128>(dim, device, visit);
}

} // namespace

size_t pair_bytes(int dim, const Device& device) {
    size_t bytes = 0;
    with_pair_tiling(dim, device, [&](auto tiling) { bytes = sizeof(PairMemory<decltype(tiling)>); });
    return bytes;
}

void launch_pairs(RoundArgs args, const Device& device, cudaStream_t stream) {
    const ForwardArgs& forward = args.all.forward;
    with_pair_tiling(forward.dim, device, [&](auto tiling) {
        using T = decltype(tiling);
        constexpr size_t kBytes = sizeof(PairMemory<T>);
        const int64_t rows = int64_t{args.units} * pair_blocks<T>(args.rows);
        const int64_t tiles = (forward.keys + T::kKeys - 1) / T::kKeys;
        const int64_t blocks = int64_t{T::kBlocks} * device.multiprocessors;
        args.queue = pair_queue(rows, tiles, forward.seen_share(), blocks);
        HW4_CUDA(cudaMemsetAsync(args.drawn, 0, sizeof *args.drawn, stream));
        HW4_CUDA(cudaFuncSetAttribute(pair_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
        const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, args.queue.length()));
        pair_kernel<T><<<grid, T::kThreads, kBytes, stream>>>(args);
    });
    HW4_CUDA_LAUNCHED("pairs");
}

} // namespace hw4::gpu
