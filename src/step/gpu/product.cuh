// The kernel of matrix products. Each block computes whole tiles of 128 rows by 96, 128 or 192 columns: no block waits
// for another.
//
//   Memory   A stage of shared memory holds 32 terms (a chain of orders.h) as [term][row] and [term][column]. There are
//            three stages: the block computes one, the next is complete, and the one after it is being copied, also
//            across the end of a tile. Copies of 4 bytes transpose a factor whose terms are contiguous in memory; rows
//            of shared memory are 4 floats longer than a tile, so that these copies use different banks. Terms beyond
//            the end are zeros.
//   Threads  8 warps, 4 down and 2 across. A thread has 8 rows and 6, 8 or 12 columns, in pieces of 4 that lie
//            apart, so that lanes which differ in one bit read the same address.
//   Sums     A thread sums a chain in one set of registers and adds it to its leaf in another. Leaves that wait for
//            their turn are in the block's global memory, a stack that is never deeper than the tree. If the last turn
//            leaves blocks idle, its tiles may be split: each unit is then a leaf of a tile, and add_leaves adds them.
//   Order    The 8 x 12 products of a term go back and forth, so that one factor stays from one product to the next.
//            The order decides which registers an instruction reads, and no bytes.
#pragma once

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/device/check.h"
#include "src/step/arithmetic.h"
#include "src/step/gpu/products.h"
#include "src/step/gpu/token_tree.cuh"

namespace hw4::step {

constexpr int kProductThreads = 256;
constexpr int kProductStages = 3;
constexpr int kTerms = static_cast<int>(kChain); // per stage
constexpr int kBand = 16;                        // rows of tiles that are computed column by column

// ---- Asynchronous copies from global to shared memory (cp.async), to 32-bit shared addresses. If `there` is false, a
// copy writes zeros and reads nothing.

using gpu::SharedAddress;

__device__ __forceinline__ void copy_float(SharedAddress to, const char* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0));
#endif
}

__device__ __forceinline__ void copy_four(SharedAddress to, const char* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
#endif
}

// end_copies() makes a group of the copies since the last one; wait_for_copies() waits until at most kLeft groups are
// pending. The compiler moves no access to memory across either, so the copies themselves need no "memory" clobber.
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// first + row * stride, in one instruction.
__device__ __forceinline__ const char* at_row(const char* first, uint32_t row, uint32_t stride) {
    const char* at;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(row), "r"(stride), "l"(first));
    return at;
}

enum class Lies { along_terms, across, across_by_four };

template <int kThreadColumns, Lies kLiesA, Lies kLiesB>
struct TileShape {
    static constexpr int kDown = 8; // rows per thread
    static constexpr int kAcross = kThreadColumns;
    static constexpr Lies kA = kLiesA, kB = kLiesB;
    static constexpr int kColumns = 16 * kAcross;
    static constexpr int kFloats = kTileRows * kColumns;
    static constexpr int kStepA = kTileRows + 4, kStepB = kColumns + 4; // in shared memory
    static constexpr int kStageBytes = 4 * kTerms * (kStepA + kStepB);
    static constexpr int kBytes = kProductStages * kStageBytes + 4 * kStepB; // reading ahead touches one more term
    static constexpr bool kOfWeights = kA != Lies::along_terms;
    static constexpr bool kColumnByColumn = kAcross == 6 && !kOfWeights && kB != Lies::across;
    static constexpr bool kReadsLate = kAcross == 12 || kOfWeights; // reads the next term in the middle of this one
    static constexpr int kRound = kColumnByColumn ? 16 : 8;         // unrolled terms
    static constexpr int kRounds = kTerms / kRound;
};

// A thread's copies of one factor's stage: kSize rows or columns of a tile by 32 terms, in kUnits parts.
template <int kSize, int kStep, Lies kLies>
struct Copier {
    static constexpr int kUnits = kSize / 32;
    static constexpr bool kAlong = kLies == Lies::along_terms;

    const char* from;
    SharedAddress to;
    uint32_t stride; // bytes
    int index;       // kAlong: the first row to copy; otherwise the number of rows or columns from the thread's on
    int last;        // kAlong: the matrix's last row, read for rows beyond it, which are computed but not written

    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
    static __device__ __forceinline__ int own_term() {
        return kAlong ? lane() / 4 : kLies == Lies::across ? warp() : 4 * warp() + lane() / 8;
    }
    static __device__ __forceinline__ int own_index() {
        return kAlong ? 4 * warp() + lane() % 4 : kLies == Lies::across ? lane() : 4 * (lane() % 8);
    }

    __device__ __forceinline__ void begin(SharedAddress stages, int step) {
        stride = 4u * static_cast<uint32_t>(step);
        to = stages + 4 * (own_term() * kStep + own_index());
    }
    // Moves to the terms from `term` on, in the tile that begins at row or column `first`.
    __device__ __forceinline__ void go_to(const float* matrix, int first, int term, int limit) {
        index = first + own_index();
        last = limit - 1;
        if (kAlong) {
            from = reinterpret_cast<const char*>(matrix + term + own_term());
        } else {
            from =
                at_row(reinterpret_cast<const char*>(matrix + index), static_cast<uint32_t>(term + own_term()), stride);
            index = limit - index;
        }
    }
    // `terms`: the leaf's terms from this stage on.
    __device__ __forceinline__ void copy(int unit, SharedAddress stage, int terms) const {
        const SharedAddress at = to + stage + 128 * unit;
        const int left = terms - own_term();
        if (kAlong) {
            const char* const row = at_row(from, static_cast<uint32_t>(min(index + 32 * unit, last)), stride);
#pragma unroll
            for (int i = 0; i < 4; ++i) copy_float(at + 4 * 8 * kStep * i, row + 32 * i, left > 8 * i);
        } else if (kLies == Lies::across_by_four) {
            copy_four(at, from + 128 * unit, left > 0 && index > 32 * unit);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                copy_float(at + 4 * 8 * kStep * i, at_row(from, 8 * i, stride) + 128 * unit,
                           left > 8 * i && index > 32 * unit);
        }
    }
    __device__ __forceinline__ void advance() { from = kAlong ? from + 4 * kTerms : at_row(from, kTerms, stride); }
};

// The block's current leaf. advance() goes to its next one.
struct Turn {
    int unit;
    int leaf;

    static __device__ __forceinline__ Turn first(const ProductArgs& g) { return of(static_cast<int>(blockIdx.x), g); }
    static __device__ __forceinline__ Turn of(int unit, const ProductArgs& g) {
        return {unit, unit < g.whole || unit >= g.units ? 0 : (unit - g.whole) / (g.tiles - g.whole)};
    }
    __device__ __forceinline__ bool is_apart(const ProductArgs& g) const { return unit >= g.whole; }
    __device__ __forceinline__ bool is_there(const ProductArgs& g) const { return unit < g.units; }
    __device__ __forceinline__ int tile(const ProductArgs& g) const {
        return is_apart(g) ? unit - leaf * (g.tiles - g.whole) : unit;
    }
    __device__ __forceinline__ int terms(const ProductArgs& g) const { return min(g.leaf, g.terms - leaf * g.leaf); }
    __device__ __forceinline__ void advance(const ProductArgs& g) {
        if (is_apart(g) || ++leaf == g.leaves) *this = of(unit + static_cast<int>(gridDim.x), g);
    }
};

struct TilePlace {
    int row, column;
};

template <class Tile>
__device__ __forceinline__ TilePlace place_of(int tile, const ProductArgs& g) {
    const int tiles_across = g.tiles / g.tiles_down;
    const int band = tile / (kBand * tiles_across), rest = tile % (kBand * tiles_across);
    const int high = min(kBand, g.tiles_down - band * kBand);
    return {(band * kBand + rest % high) * kTileRows, rest / high * Tile::kColumns};
}

// The rows and columns of a thread in a tile.
template <class Tile>
struct Part {
    int row, column; // the thread's first row, the warp's first column
    int across;      // which of the 8 lanes side by side
    __device__ __forceinline__ Part() {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        across = (lane & 1) | (lane >> 1 & 6);
        row = warp / 2 * 32 + 4 * ((lane >> 1 & 1) | (lane >> 3 & 2));
        column = warp % 2 * 8 * Tile::kAcross;
    }
    __device__ __forceinline__ int row_of(int i) const { return row + i / 4 * 16 + i % 4; }
    // Columns in groups of four; with six columns, the last group has two.
    __device__ __forceinline__ int column_of(int j) const {
        return column + j / 4 * 32 + (j / 4 * 4 + 4 <= Tile::kAcross ? 4 : 2) * across + j % 4;
    }
};

template <class Tile>
struct Factors {
    float a[2][Tile::kDown], b[2][Tile::kAcross]; // two terms: this one and the next

    __device__ __forceinline__ void read(int slot, SharedAddress at_a, SharedAddress at_b, int across) {
        float(&to_a)[Tile::kDown] = a[slot];
        gpu::load_floats(to_a, at_a, 4 * 16);
#pragma unroll
        for (int j = 0; j + 4 <= Tile::kAcross; j += 4) {
            const float4 x = *reinterpret_cast<const float4*>(gpu::pointer_to(at_b + 32 * j));
            b[slot][j] = x.x, b[slot][j + 1] = x.y, b[slot][j + 2] = x.z, b[slot][j + 3] = x.w;
        }
        if (Tile::kAcross % 4 == 2) {
            constexpr int kFirst = Tile::kAcross - 2;
            const float2 x = *reinterpret_cast<const float2*>(gpu::pointer_to(at_b + 32 * kFirst - 8 * across));
            b[slot][kFirst] = x.x, b[slot][kFirst + 1] = x.y;
        }
    }
};

// Adds one term's a * b to the chains, and calls middle() halfway.
template <class Tile, class Middle>
__device__ __forceinline__ void multiply_add(float (&chains)[Tile::kDown][Tile::kAcross], const float (&a)[Tile::kDown],
                                             const float (&b)[Tile::kAcross], bool from_zero, const Middle& middle) {
    constexpr int kDown = Tile::kDown, kAcross = Tile::kAcross;
    int done = 0;
    const auto step = [&](int i, int j) {
        if (done++ == kDown * kAcross / 2) middle();
        chains[i][j] = fused(a[i], b[j], from_zero ? 0.0f : chains[i][j]);
    };
    if (Tile::kColumnByColumn) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j)
#pragma unroll
            for (int i = 0; i < kDown; ++i) step(j % 2 == 0 ? i : kDown - 1 - i, j);
    } else if (kAcross == 12) { // two columns at a time
#pragma unroll
        for (int j = 0; j < kAcross; j += 2)
#pragma unroll
            for (int s = 0; s < kDown; ++s) {
                const int i = j / 2 % 2 == 0 ? s : kDown - 1 - s;
                step(i, j + s % 2);
                step(i, j + 1 - s % 2);
            }
    } else { // rows 0 1 2 3 7 6 5 4
#pragma unroll
        for (int t = 0; t < kDown; ++t)
#pragma unroll
            for (int s = 0; s < kAcross; ++s) step(t < 4 ? t : 11 - t, t % 2 == 0 ? s : kAcross - 1 - s);
    }
}

// Stores a thread's sums to scratch memory, where the threads' float2 are contiguous.
template <class Tile>
__device__ __forceinline__ void put_sums(const float (&sums)[Tile::kDown][Tile::kAcross], float* tile) {
    float2* const to = reinterpret_cast<float2*>(tile) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < Tile::kDown; ++i)
#pragma unroll
        for (int j = 0; j < Tile::kAcross; j += 2)
            __stcg(to + (i * Tile::kAcross + j) / 2 * kProductThreads, make_float2(sums[i][j], sums[i][j + 1]));
}

template <class Tile>
__device__ __forceinline__ void add_to_sums(float (&sums)[Tile::kDown][Tile::kAcross], const float* tile) {
    const float2* const from = reinterpret_cast<const float2*>(tile) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < Tile::kDown; ++i)
#pragma unroll
        for (int j = 0; j < Tile::kAcross; j += 2) {
            const float2 x = __ldcg(from + (i * Tile::kAcross + j) / 2 * kProductThreads);
            sums[i][j] = x.x + sums[i][j];
            sums[i][j + 1] = x.y + sums[i][j + 1];
        }
}

// Writes two or four adjacent columns of `out`.
__device__ __forceinline__ void write_sums(float2 sums, int row, int column, const ProductArgs& g) {
    if (row >= g.rows || column >= g.columns) return;
    const int64_t at = int64_t{row} * g.columns + column;
    if (g.by_four) {
        if (g.residual != nullptr) sums = *reinterpret_cast<const float2*>(g.residual + at) + sums;
        *reinterpret_cast<float2*>(g.out + at) = sums;
        return;
    }
    g.out[at] = g.residual == nullptr ? sums.x : g.residual[at] + sums.x;
    if (column + 1 < g.columns) g.out[at + 1] = g.residual == nullptr ? sums.y : g.residual[at + 1] + sums.y;
}

__device__ __forceinline__ void write_sums(float4 sums, int row, int column, const ProductArgs& g) {
    if (!g.by_four) {
        write_sums(make_float2(sums.x, sums.y), row, column, g);
        write_sums(make_float2(sums.z, sums.w), row, column + 2, g);
        return;
    }
    if (row >= g.rows || column >= g.columns) return;
    const int64_t at = int64_t{row} * g.columns + column;
    if (g.residual != nullptr) sums = *reinterpret_cast<const float4*>(g.residual + at) + sums;
    *reinterpret_cast<float4*>(g.out + at) = sums;
}

template <class Tile>
__device__ __forceinline__ void write_tile(const float (&sums)[Tile::kDown][Tile::kAcross], const Part<Tile>& part,
                                           TilePlace place, const ProductArgs& g) {
#pragma unroll
    for (int i = 0; i < Tile::kDown; ++i) {
        const int row = place.row + part.row_of(i);
        const float(&x)[Tile::kAcross] = sums[i];
#pragma unroll
        for (int j = 0; j + 4 <= Tile::kAcross; j += 4)
            write_sums(make_float4(x[j], x[j + 1], x[j + 2], x[j + 3]), row, place.column + part.column_of(j), g);
        if (Tile::kAcross % 4 == 2) {
            constexpr int kFirst = Tile::kAcross - 2;
            write_sums(make_float2(x[kFirst], x[kFirst + 1]), row, place.column + part.column_of(kFirst), g);
        }
    }
}

template <class Tile>
__global__ void __launch_bounds__(kProductThreads, 1) multiply(const __grid_constant__ ProductArgs g) {
    extern __shared__ float4 stages[];
    constexpr SharedAddress kStageBytes = Tile::kStageBytes;
    constexpr SharedAddress kLastStage = (kProductStages - 1) * kStageBytes;
    constexpr SharedAddress kBytesOfA = 4 * kTerms * Tile::kStepA;
    const SharedAddress base = gpu::address_of(stages);
    const Part<Tile> part;
    const SharedAddress own_a = base + 4 * part.row;
    const SharedAddress own_b = base + kBytesOfA + 4 * (part.column + 4 * part.across);

    // ---- Copies, two stages ahead
    Copier<kTileRows, Tile::kStepA, Tile::kA> copier_a;
    Copier<Tile::kColumns, Tile::kStepB, Tile::kB> copier_b;
    constexpr int kUnitsA = (copier_a.kUnits + Tile::kRounds - 1) / Tile::kRounds; // per round
    constexpr int kUnitsB = (copier_b.kUnits + Tile::kRounds - 1) / Tile::kRounds;
    copier_a.begin(base, g.a_step);
    copier_b.begin(base + kBytesOfA, g.b_step);
    Turn copied = Turn::first(g);
    int terms_to_copy = 0; // of that leaf; 0: everything is copied
    const auto begin_leaf = [&] {
        terms_to_copy = 0;
        if (!copied.is_there(g)) return;
        const TilePlace place = place_of<Tile>(copied.tile(g), g);
        copier_a.go_to(g.a, place.row, copied.leaf * g.leaf, g.rows);
        copier_b.go_to(g.b, place.column, copied.leaf * g.leaf, g.columns);
        terms_to_copy = copied.terms(g);
    };
    const auto copy = [&](int round, int i, SharedAddress stage) {
        const int unit = i < kUnitsA ? round * kUnitsA + i : round * kUnitsB + i - kUnitsA;
        if (i < kUnitsA) {
            if (kUnitsA * Tile::kRounds == copier_a.kUnits || unit < copier_a.kUnits)
                copier_a.copy(unit, stage, terms_to_copy);
        } else if (kUnitsB * Tile::kRounds == copier_b.kUnits || unit < copier_b.kUnits) {
            copier_b.copy(unit, stage, terms_to_copy);
        }
    };
    const auto end_stage = [&] {
        end_copies();
        if (terms_to_copy <= 0) return;
        copier_a.advance();
        copier_b.advance();
        terms_to_copy -= kTerms;
        if (terms_to_copy > 0) return;
        copied.advance(g);
        begin_leaf();
    };
    begin_leaf();
    SharedAddress copy_stage = 0;
#pragma unroll 1
    for (; copy_stage < kLastStage; copy_stage += kStageBytes) {
        if (terms_to_copy > 0)
#pragma unroll 1
            for (int round = 0; round < Tile::kRounds; ++round)
#pragma unroll
                for (int i = 0; i < kUnitsA + kUnitsB; ++i) copy(round, i, copy_stage);
        end_stage();
    }

    // ---- Sums
    SharedAddress stage = 0;
    int waiting = 0; // leaves or nodes of the tree on the stack
#pragma unroll 1
    for (Turn turn = Turn::first(g); turn.is_there(g); turn.advance(g)) {
        float sums[Tile::kDown][Tile::kAcross];
#pragma unroll
        for (int i = 0; i < Tile::kDown; ++i)
#pragma unroll
            for (int j = 0; j < Tile::kAcross; ++j) sums[i][j] = 0.0f;
#pragma unroll 1
        for (int terms = turn.terms(g); terms > 0; terms -= kTerms) {
            wait_for_copies<kProductStages - 2>();
            __syncthreads();
            float chains[Tile::kDown][Tile::kAcross];
            Factors<Tile> factors;
            SharedAddress at_a = own_a + stage, at_b = own_b + stage;
            factors.read(0, at_a, at_b, part.across);
            const bool copying = terms_to_copy > 0;
            const auto compute = [&](int round, bool from_zero) {
#pragma unroll
                for (int t = 0; t < Tile::kRound; ++t) {
                    const auto read_next = [&] {
                        factors.read((t + 1) % 2, at_a + 4 * Tile::kStepA * (t + 1), at_b + 4 * Tile::kStepB * (t + 1),
                                     part.across);
                    };
                    if (!Tile::kReadsLate) read_next();
#pragma unroll
                    for (int i = 0; i < kUnitsA + kUnitsB; ++i)
                        if (t == i * Tile::kRound / (kUnitsA + kUnitsB) && copying) copy(round, i, copy_stage);
                    multiply_add<Tile>(chains, factors.a[t % 2], factors.b[t % 2], from_zero && t == 0, [&] {
                        if (Tile::kReadsLate) read_next();
                    });
                }
                at_a += 4 * Tile::kStepA * Tile::kRound;
                at_b += 4 * Tile::kStepB * Tile::kRound;
            };
            compute(0, true);
#pragma unroll 1
            for (int round = 1; round < Tile::kRounds; ++round) compute(round, false);
#pragma unroll
            for (int i = 0; i < Tile::kDown; ++i)
#pragma unroll
                for (int j = 0; j < Tile::kAcross; ++j) sums[i][j] = sums[i][j] + chains[i][j];
            end_stage();
            copy_stage = copy_stage == kLastStage ? 0 : copy_stage + kStageBytes;
            stage = stage == kLastStage ? 0 : stage + kStageBytes;
        }
        if (turn.is_apart(g)) {
            put_sums<Tile>(sums, g.waiting + int64_t{turn.unit - g.whole} * Tile::kFloats);
            continue;
        }
        float* const own = g.waiting + (g.units - g.whole + int64_t{blockIdx.x} * g.waiting_slots) * Tile::kFloats;
        const bool last = turn.leaf + 1 == g.leaves;
#pragma unroll 1
        for (int joins = g.tree && !last ? joins_after(turn.leaf) : waiting; joins > 0; --joins)
            add_to_sums<Tile>(sums, own + int64_t{--waiting} * Tile::kFloats);
        if (last)
            write_tile<Tile>(sums, part, place_of<Tile>(turn.tile(g), g), g);
        else
            put_sums<Tile>(sums, own + int64_t{waiting++} * Tile::kFloats);
    }
}

// blockIdx: a tile that was split into leaves, and the pair of columns of every thread.
template <class Tile>
__global__ void __launch_bounds__(kProductThreads) add_leaves(const __grid_constant__ ProductArgs g) {
    const int tile = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y);
    const int64_t step = int64_t{g.tiles - g.whole} * Tile::kFloats / 2; // between leaves
    float2* const leaves = reinterpret_cast<float2*>(g.waiting + int64_t{tile} * Tile::kFloats) +
                           pair * kProductThreads + static_cast<int>(threadIdx.x);
    float2 sum = {0.0f, 0.0f};
    if (g.tree)
        sum = sum_in_tree(leaves, step, g.leaves);
    else
        for (int leaf = 0; leaf < g.leaves; ++leaf) sum = sum + leaves[leaf * step];
    const Part<Tile> part;
    const TilePlace place = place_of<Tile>(g.whole + tile, g);
    const int first = 2 * pair;
    write_sums(sum, place.row + part.row_of(first / Tile::kAcross),
               place.column + part.column_of(first % Tile::kAcross), g);
}

template <class Tile>
void launch_tile(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream) {
    HW4_CUDA(cudaFuncSetAttribute(multiply<Tile>, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kBytes));
    multiply<Tile><<<static_cast<unsigned>(plan.blocks), kProductThreads, Tile::kBytes, stream>>>(args);
    HW4_CUDA_LAUNCHED("multiply");
    const auto apart = static_cast<unsigned>(args.tiles - args.whole);
    if (apart == 0) return;
    constexpr unsigned kPairs = Tile::kDown * Tile::kAcross / 2;
    add_leaves<Tile><<<dim3(apart, kPairs), kProductThreads, 0, stream>>>(args);
    HW4_CUDA_LAUNCHED("add_leaves");
}

// Launches the kernel for the plan's tile and the factors' layout.
template <Lies kA, Lies kB>
void launch_product(const ProductArgs& args, const ProductPlan& plan, cudaStream_t stream) {
    if (plan.tile_columns == 192) return launch_tile<TileShape<12, kA, kB>>(args, plan, stream);
    if (plan.tile_columns == 128) return launch_tile<TileShape<8, kA, kB>>(args, plan, stream);
    launch_tile<TileShape<6, kA, kB>>(args, plan, stream);
}

} // namespace hw4::step
