// The kernel of the upper rungs: register tiles, both products as outer products from transposed shared memory. The
// rungs differ in their Choices: Lanes, which lanes stand where; kAsync, tiles copied in the background; kAhead,
// operands loaded a step ahead; kWoven, copies spread over the arithmetic, loops unrolled and peeled as measured.
//
// A block walks over all keys in tiles of 64, which are also the contract's segments: each tile's output is summed in
// registers that the scores have left, then added to totals that never leave theirs.
// The contract's M is 0, and its clamp does nothing, while a row's scores stay between -120 and 72 and its first tile's
// largest is at least -8. So the loop keeps no maximum: it only remembers the largest |score|, and a block with a row
// that starts below -7 or has a score beyond +-71 does its rows again by plain_row.cuh, some fifty times as slow.
#pragma once

#include "../check.h"
#include "plain_row.cuh"
#include "tile_copies.cuh"
#include "tile_weights.cuh"

namespace hw4::gpu {

template <class T>
struct alignas(16) TileMemory {
    // Each with steps to spare, which reading ahead touches and nobody uses.
    float qt[T::kDim + kSpareSteps][T::kQStride];
    float kt[T::kDim + kSpareSteps][T::kKStride];
    float v[T::kKeys + kSpareSteps][T::kDim];
    float p[T::kTeams][kWeightFloats];
    alignas(16) float fours[T::kTeam > 1 ? T::kThreads : 1][kRowsPerThread]; // what a team of two exchanges
};

// A step of the scores is a column: a are rows of Q, b are keys.
template <class T>
struct ScoreSteps {
    static __device__ __forceinline__ constexpr int a(int u) { return 4 * u * T::kQStride; }
    static __device__ __forceinline__ constexpr int b(int u) { return 4 * u * T::kKStride; }
    static __device__ __forceinline__ void load(Fragments<T::kKT>& f, int slot, const Factors& from, int u) {
        load_floats(f.a[slot], from.a + a(u), kSecondRows);
        load_floats(f.b[slot], from.b + b(u), kSecondPlaces);
    }
    static __device__ __forceinline__ void multiply(float (&acc)[kRowsPerThread][T::kKT],
                                                    const float (&q)[kRowsPerThread], const float (&k)[T::kKT],
                                                    bool from_zero) {
        outer_by_columns(acc, q, k, from_zero);
    }
};

// A step of the output is a key: a are its weights, b columns of V.
template <class T>
struct OutputSteps {
    static __device__ __forceinline__ constexpr int a(int u) { return 4 * weight_offset(u); }
    static __device__ __forceinline__ constexpr int b(int u) { return 4 * u * T::kDim; }
    static __device__ __forceinline__ void load(Fragments<T::kCT>& f, int slot, const Factors& from, int u) {
        load_floats(f.b[slot], from.b + b(u), kSecondPlaces);
        load_floats(f.a[slot], from.a + a(u), kSecondRows);
    }
    static __device__ __forceinline__ void multiply(float (&acc)[kRowsPerThread][T::kCT],
                                                    const float (&p)[kRowsPerThread], const float (&v)[T::kCT],
                                                    bool from_zero) {
        outer_by_rows(acc, p, v, from_zero);
    }
};

// The scores of the tile: blocks of 32 columns, added in order. before_block(n) starts copies that travel meanwhile.
template <class T, class Choices, class BeforeBlock>
__device__ __forceinline__ void score(Scores<T>& s, Factors& at, BeforeBlock before_block) {
    constexpr bool kPeeled = Choices::kWoven && T::kDim > 32; // measured: at 32 more code than it is worth
    constexpr int kUnroll = Choices::kWoven && T::kDim > 32 ? 16 : kRoundSteps;
    Fragments<T::kKT> f;
    if (Choices::kAhead) ScoreSteps<T>::load(f, 0, at, 0);
#pragma unroll
    for (int n = 0; n < T::kDim / kScoreColumns; ++n) {
        float block[kRowsPerThread][T::kKT];
        before_block(n);
        chain<ScoreSteps<T>, kScoreColumns, kUnroll, Choices::kAhead, kPeeled>(block, f, at, [] {});
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
            for (int j = 0; j < T::kKT; ++j) s[i][j] = n == 0 ? block[i][j] : s[i][j] + block[i][j];
    }
    rewind<ScoreSteps<T>>(at, T::kDim);
}

// The tile's part of the output. copy_eight() starts copies of eight rows that travel meanwhile.
template <class T, class Choices, class CopyEight>
__device__ __forceinline__ void add_products(float (&total)[kRowsPerThread][T::kCT], Factors& at,
                                             CopyEight copy_eight) {
    constexpr int kUnroll = Choices::kWoven && T::kCT == 4 ? 16 : kRoundSteps;
    float o[kRowsPerThread][T::kCT];
    Fragments<T::kCT> f;
    if (Choices::kAhead) OutputSteps<T>::load(f, 0, at, 0);
    chain<OutputSteps<T>, T::kKeys, kUnroll, Choices::kAhead, false>(o, f, at, [&] {
#pragma unroll
        for (int row = 0; row < kUnroll; row += 8) copy_eight();
    });
    rewind<OutputSteps<T>>(at, T::kKeys);
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int j = 0; j < T::kCT; ++j) total[i][j] += o[i][j];
}

// The thread's rows and columns of the result.
template <class T, class Lanes>
__device__ __forceinline__ void store_result(const float (&total)[kRowsPerThread][T::kCT], const RowSums& sums,
                                             const Position& at, int first_row, int first_column,
                                             const BatchMatrices& m, const KernelArgs& args) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
        const float inv = 1.0f / closed<Lanes>(sums.lane[i]);
        const int row = first_row + row_of(at, i);
        if (row >= static_cast<int>(args.tokens)) continue;
        float* out = m.out + static_cast<size_t>(row) * args.out_stride;
#pragma unroll
        for (int j = 0; j < T::kCT; j += 4) {
            const int column = first_column + place_of(at, j);
            if (T::kWhole) {
                *reinterpret_cast<float4*>(out + column) =
                    make_float4(result(total[i][j], inv), result(total[i][j + 1], inv), result(total[i][j + 2], inv),
                                result(total[i][j + 3], inv));
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (column + e < args.dim) out[column + e] = result(total[i][j + e], inv);
            }
        }
    }
}

struct BlockPlace {
    int64_t batch;
    int first_row;
};

// Worked out again where it is needed rather than kept in registers over the loop: hence volatile.
template <class T>
__device__ __forceinline__ BlockPlace place_of_block(const KernelArgs& args) {
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    const auto row_blocks = static_cast<unsigned>(row_blocks_of<T>(args));
    return {block / row_blocks, static_cast<int>(args.first_query) + static_cast<int>(block % row_blocks) * T::kRows};
}

template <class T, class Choices>
__global__ __launch_bounds__(T::kThreads, T::kBlocks) void tile_kernel(const __grid_constant__ KernelArgs args) {
#if __CUDA_ARCH__ >= 800
    using Lanes = typename Choices::Lanes;
    constexpr bool kAsync = Choices::kAsync;
    extern __shared__ float4 memory[];
    TileMemory<T>& shared = *reinterpret_cast<TileMemory<T>*>(memory);
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const Position at{static_cast<int>(threadIdx.x) / kWarpSize, lane, Lanes::across(lane), Lanes::down(lane)};
    const int team = at.warp / T::kTeam;
    const int part = at.warp % T::kTeam;
    const int tokens = static_cast<int>(args.tokens);
    const int first_row = place_of_block<T>(args).first_row;
    const BatchMatrices m = matrices_of(args, place_of_block<T>(args).batch);
    const Rows rows = rows_of(args);

    TransposedCopy<T, T::kQStride, kAsync> q_copy(m.q, first_row, &shared.qt[0][0], at);
    TransposedCopy<T, T::kKStride, kAsync> k_copy(m.k, 0, &shared.kt[0][0], at);
    PlainCopy<T, kAsync> v_copy(m.v, &shared.v[0][0], at);
    q_copy.whole_tile(rows, T::kRows);
    if (kAsync) k_copy.whole_tile(rows, T::kKeys);
    finish_copies();
    __syncthreads(); // Q is complete, and the first K tile if it is copied ahead

    Factors score_factors{address_of(&shared.qt[0][team * kWarpRows + 4 * at.down]),
                          address_of(&shared.kt[0][part * T::kWarpKeys + 4 * at.across])};
    Factors output_factors{address_of(&shared.p[team][4 * at.down]),
                           address_of(&shared.v[0][part * T::kWarpColumns + 4 * at.across])};
    const SharedAddress own_weights =
        address_of(&shared.p[team][weight_offset(part * T::kWarpKeys + 4 * at.across) + 4 * at.down]);
    float total[kRowsPerThread][T::kCT] = {};
    RowSums sums = {};
    float largest = 0.0f; // |score|; infinite when a row starts too low

#pragma unroll 1
    for (int first_key = 0; first_key < tokens; first_key += T::kKeys) {
        if (!kAsync) k_copy.whole_tile(rows, T::kKeys);
        if (!Choices::kWoven) v_copy.template next_rows<T::kKeys>(rows, 0);
        if (!kAsync) __syncthreads(); // K and V are complete

        float s[kRowsPerThread][T::kKT];
        score<T, Choices>(s, score_factors, [&](int block) {
            constexpr int kCount = T::kKeys * kScoreColumns / T::kDim;
            if (Choices::kWoven) v_copy.template next_rows<kCount>(rows, block * kCount);
        });
        if (first_key == 0 && part == 0 && starts_low<T, Lanes>(s, at, tokens, args.scale)) largest = HUGE_VALF;
        largest = weigh<T>(s, largest, args.scale);
        const int keys = tokens - first_key; // from here on
        if (keys < T::kKeys) drop_missing_keys<T>(s, at, keys - part * T::kWarpKeys);
        store_weights<T>(s, own_weights);
        if (T::kTeam == 1)
            add_own<T>(sums, s);
        else
            offer<T>(s, shared.fours[threadIdx.x]);
        finish_copies();
        __syncthreads(); // V and the weights are complete; everybody is done with K

        if (kAsync && !Choices::kWoven) k_copy.whole_tile(rows, T::kKeys);
        add_products<T, Choices>(total, output_factors, [&] {
            if (Choices::kWoven) k_copy.eight_rows(rows);
        });
        if (Choices::kWoven) k_copy.rewind(T::kKeys);
        if (T::kTeam == 2) collect(sums, shared.fours[threadIdx.x & ~kWarpSize], shared.fours[threadIdx.x | kWarpSize]);
        finish_copies();
        __syncthreads(); // the next K tile is complete; everybody is done with V and the weights
    }

    const BlockPlace place = place_of_block<T>(args);
    const bool strayed = largest > (kHeadroom - 1.0f) * args.scale.inv_c;
    if (!__syncthreads_or(strayed)) {
        store_result<T, Lanes>(total, sums, at, place.first_row + team * kWarpRows, part * T::kWarpColumns,
                               matrices_of(args, place.batch), args);
        return;
    }
    for (int row = at.warp; row < T::kRows && place.first_row + row < tokens; row += T::kWarps)
        attend_plain_row(args, place.batch, place.first_row + row);
#else
    __trap(); // the table keeps it from cards and builds below 8.0
#endif
}

} // namespace hw4::gpu
