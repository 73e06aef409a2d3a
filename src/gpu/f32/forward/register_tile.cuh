// Register tiles: how the threads of a block divide a tile of scores and a tile of outputs, and the outer products that
// compute them.
#pragma once

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/f32/forward/common.cuh"

namespace hw4::gpu {

constexpr int kRowsPerThread = 8;
constexpr int kAcross = 8; // lanes of a warp across keys or columns
constexpr int kDown = 4;   // lanes of a warp down the query rows
constexpr int kWarpRows = kRowsPerThread * kDown;

// The position of a warp's lanes: across and down.
struct RowsOfLanes { // eight across, four down
    static __device__ __forceinline__ int across(int lane) { return lane % 8; }
    static __device__ __forceinline__ int down(int lane) { return lane / 8; }
    static __device__ __forceinline__ constexpr int across_bit(int bit) { return 1 << bit; }
};

// Bit 0 moves across only, bit 1 down only.
struct PairedLanes {
    static __device__ __forceinline__ int across(int lane) { return (lane & 1) | (lane >> 1 & 6); }
    static __device__ __forceinline__ int down(int lane) { return (lane >> 1 & 1) | (lane >> 3 & 2); }
    static __device__ __forceinline__ constexpr int across_bit(int bit) { return bit == 0 ? 1 : 2 << bit; }
};

// kTeamWarps warps share 32 query rows: each takes a part of the tile's keys for the scores and of the columns for the
// output.
template <int kDimension, bool kAllColumns, int kTeamWarps, int kWarpCount, int kBlocksPerSm>
struct Tiling {
    static constexpr int kDim = kDimension;
    static constexpr bool kWhole = kAllColumns; // d == kDim; otherwise columns from d on are zero
    static constexpr int kTeam = kTeamWarps;
    static constexpr int kWarps = kWarpCount;
    static constexpr int kBlocks = kBlocksPerSm;
    static constexpr int kThreads = kWarps * kWarpSize;
    static constexpr int kTeams = kWarps / kTeam;
    static constexpr int kRows = kTeams * kWarpRows; // query rows of a block
    static constexpr int kEighth = kTeams * kDown;   // of these rows
    static constexpr int kKeys = kSegmentKeys;       // a tile is a segment
    static constexpr int kWarpKeys = kKeys / kTeam;
    static constexpr int kWarpColumns = kDim / kTeam;
    static constexpr int kKT = kWarpKeys / kAcross;    // a thread's keys
    static constexpr int kCT = kWarpColumns / kAcross; // a thread's output columns
    // With 8 x 8 scores, twice, and 8 x 8 totals no register is left: row sums are stored in shared memory meanwhile.
    static constexpr bool kSumsWait = kKT == 8 && kCT == 8;
    static_assert(kKT % 4 == 0 && kCT % 4 == 0, "tiles are read as float4");
    static_assert(kWarps % kTeam == 0 && kKeys == 64, "see weight_offset");
    // Transposed rows are 4 banks apart modulo 32: the 4 rows x 8 columns that a warp writes use 32 banks.
    static constexpr int kQStride = kRows + 4;
    static constexpr int kKStride = kKeys + 4;
};

// Calls visit() with the tiling of that head size: for all its columns, or for some, unless kAlwaysWhole.
template <template <bool> class TilingOf, bool kAlwaysWhole = false, class Visit>
void with_columns(int dim, Visit visit) {
    if (kAlwaysWhole || dim == TilingOf<true>::kDim) return visit(TilingOf<true>());
    if constexpr (!kAlwaysWhole) return visit(TilingOf<false>());
}

// Where a thread's tiles are.
struct Position {
    int warp;
    int lane;
    int across;
    int down;
};

// Volatile, so that it is read again where it is needed rather than kept in a register.
__device__ __forceinline__ int thread_in_block() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

template <class Lanes>
__device__ __forceinline__ Position position() {
    const int thread = thread_in_block();
    const int lane = thread % kWarpSize;
    return {thread / kWarpSize, lane, Lanes::across(lane), Lanes::down(lane)};
}

// Row i of a thread's 8 within its team's 32; key or column j of its 4 or 8 within its warp's.
__device__ __forceinline__ int row_of(const Position& at, int i) { return i / 4 * 4 * kDown + 4 * at.down + i % 4; }
__device__ __forceinline__ int place_of(const Position& at, int j) {
    return j / 4 * 4 * kAcross + 4 * at.across + j % 4;
}

// The block's query row at a place of the Q tile: the same or, under a mask, dealt so that row i of every thread is in
// the i-th eighth of the block. Then all threads have as many rows that see a key.
template <class T, bool kDealt>
__device__ __forceinline__ int row_at_place(unsigned place) {
    if (!kDealt) return place;
    return (place % kWarpRows / 16 * 4 + place % 4) * T::kEighth + place / kWarpRows * kDown + place / 4 % kDown;
}
constexpr int kSecondRows = 4 * kDown * 4;     // bytes from a thread's first four rows to its others
constexpr int kSecondPlaces = 4 * kAcross * 4; // bytes from its first four keys or columns to its others

// The rows of a thread that are computed for its key j: from(j) to the last.
struct EveryRow {
    __host__ __device__ static constexpr int from(int) { return 0; }
};

// The same in the corner: the last tile of a block, if the block's last row is the first that sees the tile's last key.
// Rows are dealt, and the first of them see nothing of the tile.
template <class T>
struct CornerRows {
    __host__ __device__ static constexpr int from(int j) { return seeing(T::kTeam == 1 ? j / 4 * kKeyTile : 0); }
    // The first row that sees a key of the tile.
    __host__ __device__ static constexpr int seeing(int key) { return (T::kRows - T::kKeys + key) / T::kEighth; }
};

// acc += a outer b, in alternating directions so that consecutive fmas share a factor. The two directions were chosen
// by the code that the compiler makes of them.
template <class Part = EveryRow, int kN>
__device__ __forceinline__ void outer_by_columns(float (&acc)[kRowsPerThread][kN], const float (&a)[kRowsPerThread],
                                                 const float (&b)[kN], bool from_zero) {
#pragma unroll
    for (int j = 0; j < kN; ++j)
#pragma unroll
        for (int step = 0; step < kRowsPerThread; ++step) {
            const int i = j % 2 == 0 ? step : kRowsPerThread - 1 - step;
            if (i >= Part::from(j)) acc[i][j] = fused(a[i], b[j], from_zero ? 0.0f : acc[i][j]);
        }
}

template <int kFirst = 0, int kN>
__device__ __forceinline__ void outer_by_rows(float (&acc)[kRowsPerThread][kN], const float (&a)[kRowsPerThread],
                                              const float (&b)[kN], bool from_zero) {
#pragma unroll
    for (int turn = 0; turn < kRowsPerThread; ++turn)
#pragma unroll
        for (int step = 0; step < kN; ++step) {
            const int i = turn < 4 ? turn : 11 - turn; // 0 1 2 3 7 6 5 4: in the order of the loads
            const int j = turn % 2 == 0 ? step : kN - 1 - step;
            if (i >= kFirst) acc[i][j] = fused(a[i], b[j], from_zero ? 0.0f : acc[i][j]);
        }
}

template <int kN>
__device__ __forceinline__ void clear(float (&acc)[kRowsPerThread][kN]) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int j = 0; j < kN; ++j) acc[i][j] = 0.0f;
}

template <int kN>
__device__ __forceinline__ void add_rows(float (&total)[kRowsPerThread][kN], const float (&o)[kRowsPerThread][kN]) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int j = 0; j < kN; ++j) total[i][j] += o[i][j];
}

// Makes the compiler set these registers here: it would clear them later.
template <int kN>
__device__ __forceinline__ void keep_here(float (&acc)[kRowsPerThread][kN]) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int j = 0; j < kN; ++j) asm volatile("" : "+f"(acc[i][j]));
}

// The operands of two consecutive steps, in turn.
template <int kN>
struct Fragments {
    float a[2][kRowsPerThread];
    float b[2][kN];
};
constexpr int kSpareSteps = 1; // steps that prefetching reads beyond the last

// The address of the next step's factors in shared memory.
struct Factors {
    SharedAddress a;
    SharedAddress b;
};

constexpr int kRoundSteps = 8;

// A chain of outer products from the current factors up to where b reaches `end`; advances the factors past them.
// Steps    defines a step: a(u) and b(u), how many bytes the factors of step u are beyond step 0's,
//          linear in whole rounds of kRoundSteps; load(), step u's factors into a slot; multiply(), the outer product.
// kUnroll  Steps of a round, an even number; the chain is a whole number of rounds.
// kAhead   The operands of the first step are already in slot 0; each step loads the next one's before it computes,
//          the last step the operands of the step after the chain.
// kPeeled  The first step multiplies instead of adding to the registers.
// copies() Called at the beginning of each round: starts asynchronous copies to shared memory.
template <class Steps, int kUnroll, bool kAhead, bool kPeeled, int kN, class Copies>
__device__ __forceinline__ void chain(float (&acc)[kRowsPerThread][kN], Fragments<kN>& f, Factors& at,
                                      SharedAddress end, Copies copies) {
    static_assert(kUnroll % 2 == 0, "two slots");
    const auto round = [&](bool from_zero) {
        copies();
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const int loaded = kAhead ? u + 1 : u;
            Steps::load(f, loaded % 2, at, loaded);
            Steps::multiply(acc, f.a[u % 2], f.b[u % 2], from_zero && u == 0);
        }
        at.a += Steps::a(kUnroll);
        at.b += Steps::b(kUnroll);
    };
    if (kPeeled) round(true);
#pragma unroll 1
    while (at.b != end) round(false);
}

// Back by `steps` steps. Cheaper than a copy of the factors: no register is free for one.
template <class Steps>
__device__ __forceinline__ void rewind(Factors& at, int steps) {
    at.a -= Steps::a(steps);
    at.b -= Steps::b(steps);
}

// ---- The product of two tiles with transposed rows in shared memory: its steps

// A step of the scores is a column: a are rows of Q, b are keys.
template <class T, class Part = EveryRow>
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
        outer_by_columns<Part>(acc, q, k, from_zero);
    }
};

} // namespace hw4::gpu
