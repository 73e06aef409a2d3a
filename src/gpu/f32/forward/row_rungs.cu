// The rungs shared_tiles to register_rows: one kernel, with one more choice on each rung.
#include <algorithm>
#include <type_traits>

#include "src/gpu/device/check.h"
#include "src/gpu/f32/forward/common.cuh"
#include "src/gpu/f32/kernels.h"

namespace hw4::gpu {

// Tiles in shared memory, a warp for each query row: the kernel of the rungs shared_tiles to register_rows. They differ
// in four choices; each rung makes one more than the rung before it:
//
//   kPadded     the rows of the K and V tile are 33 floats apart instead of 32
//   kCoalesced  adjacent lanes load adjacent floats of a row, instead of one float of adjacent rows
//   kUnrolled   the loops over a tile's columns and keys are unrolled
//   kRegisters  the running output and its totals are in registers instead of memory
//
// A block takes a tile of query rows of a unit and walks over all keys. For the scores lane = key, for the output lane
// = column (one in each chunk of 32 columns). K and V pass through one buffer, on the rungs 32 keys and a chunk at a
// time. Its Block sets how many rows a block takes and how many keys it loads: that changes the speed, never the bytes,
// since the contents of the buffer are used in the contract's tiles of 32 keys.

// ---- Where the kernel keeps a query row's output while it grows: in memory or in registers. In both cases a lane has
// one column in each chunk of 32, and no other thread uses it.

constexpr int kTile = kKeyTile; // keys of a tile, columns of a chunk, lanes of a warp
static_assert(kTile == kScoreColumns, "a chunk of columns is one block of the score");
static_assert(kTile == kWarpSize, "a lane for each key and for each column");

// A lane's columns of an output row in global memory.
struct LaneColumns {
    float* first;
    int count; // the lane's chunks, from the first on, in which the column exists

    __device__ __forceinline__ bool exists(int chunk) const { return chunk < count; }
    __device__ __forceinline__ float& at(int chunk) const { return first[chunk * kTile]; }
};

// No columns for a row that does not exist.
__device__ __forceinline__ LaneColumns lane_columns(const ForwardArgs& args, float* out, int64_t row, int lane) {
    if (row >= args.queries) return {nullptr, 0};
    return {out + static_cast<size_t>(row) * args.out.row + lane, (args.dim - lane + kTile - 1) / kTile};
}

// The running output in shared memory. There is no space left for the totals: they are kept in the output itself.
template <int kChunks, int kRows>
class SharedOutput {
public:
    struct Memory {
        float running[kChunks][kRows][kTile];
    };

    __device__ __forceinline__ SharedOutput(Memory& memory, int row, int lane, const LaneColumns& totals)
        : running_(&memory.running[0][row][lane]), totals_(totals) {
#pragma unroll 1
        for (int chunk = 0; chunk < kChunks; ++chunk) {
            running(chunk) = 0.0f;
            set_total(chunk, 0.0f);
        }
    }

    __device__ __forceinline__ float& running(int chunk) { return running_[chunk * kRows * kTile]; }
    __device__ __forceinline__ float total(int chunk) const { return totals_.exists(chunk) ? totals_.at(chunk) : 0.0f; }
    __device__ __forceinline__ void set_total(int chunk, float x) {
        if (totals_.exists(chunk)) totals_.at(chunk) = x;
    }

private:
    float* running_; // this lane's column in the first chunk
    LaneColumns totals_;
};

template <int kChunks>
class RegisterOutput {
public:
    struct Memory {};

    __device__ __forceinline__ RegisterOutput(Memory&, int, int, const LaneColumns&) {}

    __device__ __forceinline__ float& running(int chunk) { return running_[chunk]; }
    __device__ __forceinline__ float total(int chunk) const { return totals_[chunk]; }
    __device__ __forceinline__ void set_total(int chunk, float x) { totals_[chunk] = x; }

private:
    float running_[kChunks] = {};
    float totals_[kChunks] = {};
};

enum class RowRung { shared, padded, coalesced, unrolled, registers };

template <RowRung kRung>
struct RowChoices {
    static constexpr bool kPadded = kRung >= RowRung::padded;
    static constexpr bool kCoalesced = kRung >= RowRung::coalesced;
    static constexpr bool kUnrolled = kRung >= RowRung::unrolled;
    static constexpr bool kRegisters = kRung >= RowRung::registers;
};
using RegisterRows = RowChoices<RowRung::registers>; // profile/row_tilings.cu gives it blocks of other sizes

// The sizes of a block of the rungs.
template <class Choices, int kChunks>
struct RungBlock {
    // Query rows: Br in papers. 32 rows of 256 columns of Q and of the output would not fit into 48 KiB.
    static constexpr int kRows = !Choices::kRegisters && kChunks == 8 ? 16 : 32;
    static constexpr int kKeys = kTile;   // in the buffer: Bc
    static constexpr int kHeldChunks = 1; // chunks of their columns in the buffer
    // Every rung asks for only one block per multiprocessor: left alone, the compiler squeezes some rungs into half the
    // registers and others not.
    static constexpr int kLeastBlocks = 1;
};

template <class Choices, class Block, int kChunkCount>
struct RowTiling : Choices, Block {
    static constexpr int kChunks = kChunkCount;
    static constexpr int kKeyTiles = Block::kKeys / kTile;
    static_assert(Block::kKeys % kTile == 0, "keys come in the contract's tiles");
    static_assert(kChunks % Block::kHeldChunks == 0, "the buffer is full whenever it is filled");
    static_assert(kKeyTiles == 1 || Block::kHeldChunks == kChunks, "all of a tile's output comes before the next tile");
    static constexpr int kThreads = Block::kRows * kWarpSize;
    // For the scores lane j reads kv[j][t]: with 32 floats a row all lanes meet one bank, with 33 each its own.
    static constexpr int kKeyFloats = kTile + (Choices::kPadded ? 1 : 0);
    // With eight chunks in registers all 32 steps at once make some architectures spill.
    static constexpr int kSteps = Choices::kRegisters && kChunks == 8 ? kTile / 2 : kTile;
    static constexpr int kUnroll = Choices::kUnrolled ? kSteps : 1;
    // Loads of a chunk that a thread has in flight: more hide more of the memory's latency, but take registers.
    static constexpr int kLoads = 4;
    static constexpr int kTileLoads = kTile * kTile / kThreads; // per thread
    static constexpr int kTilesAtOnce = std::max(kLoads / kTileLoads, 1);
    // Registers have no indices: loops over chunks in registers have to be unrolled.
    static constexpr int kChunkUnroll = Choices::kRegisters ? kChunks : 1;
    using Output =
        std::conditional_t<Choices::kRegisters, RegisterOutput<kChunks>, SharedOutput<kChunks, Block::kRows>>;
};

constexpr size_t kSharedBytes = 48 << 10; // for a block, without asking for more

// A block's shared memory. Only kv is read down its columns; all lanes of a warp read q and p at one address.
template <class T>
struct RowTiles {
    alignas(16) float q[T::kChunks][T::kRows][kTile];
    alignas(16) float p[T::kRows][kTile];
    float kv[T::kHeldChunks][T::kKeyTiles][kTile][T::kKeyFloats];
    typename T::Output::Memory output;
};

// A unit's matrix [rows][args.dim].
struct RowsOfUnit {
    const float* first;
    size_t stride;
    int64_t rows;
};

// Fills a tile with rows and columns of a matrix, zeros outside it. All threads of the block take part.
template <class T, int kTileRows, int kRowFloats>
__device__ __forceinline__ void load_tile(float (&to)[kTileRows][kRowFloats], const RowsOfUnit& matrix,
                                          int64_t first_row, int first_column, int dim) {
    static_assert(kTileRows * kTile % T::kThreads == 0, "every thread loads as many floats");
#pragma unroll T::kLoads
    for (int first = 0; first < kTileRows * kTile; first += T::kThreads) {
        const int index = first + static_cast<int>(threadIdx.x);
        const int row = T::kCoalesced ? index / kTile : index % kTileRows;
        const int column = T::kCoalesced ? index % kTile : index / kTileRows;
        const bool exists = first_row + row < matrix.rows && first_column + column < dim;
        to[row][column] =
            exists ? matrix.first[static_cast<size_t>(first_row + row) * matrix.stride + first_column + column] : 0.0f;
    }
}

// One block of the scores of a query row and the lane's key in each tile: 32 columns. A float of q serves all tiles.
template <class T>
__device__ __forceinline__ void add_score_blocks(float (&scores)[T::kKeyTiles], const float (&q)[kTile],
                                                 const float (&k)[T::kKeyTiles][kTile][T::kKeyFloats], int lane) {
    float blocks[T::kKeyTiles] = {};
#pragma unroll T::kUnroll
    for (int t = 0; t < kTile; ++t)
#pragma unroll
        for (int tile = 0; tile < T::kKeyTiles; ++tile) blocks[tile] = fused(q[t], k[tile][lane][t], blocks[tile]);
#pragma unroll
    for (int tile = 0; tile < T::kKeyTiles; ++tile) scores[tile] += blocks[tile];
}

// o += the weighted values of a tile's keys, for one column. If o is in shared memory it is written at every step: for
// all the compiler knows, the next p or v might be there.
template <class T>
__device__ __forceinline__ void add_values(float& o, const float (&p)[kTile], const float (&v)[kTile][T::kKeyFloats],
                                           int column) {
#pragma unroll T::kUnroll
    for (int j = 0; j < kTile; ++j) o = fused(p[j], v[j][column], o);
}

template <class T>
__global__ __launch_bounds__(T::kThreads, T::kLeastBlocks) void row_tiles(const __grid_constant__ ForwardArgs args) {
    __shared__ RowTiles<T> tiles;
    static_assert(sizeof tiles <= kSharedBytes, "what every GPU allows a block");
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize; // the query row in the tile
    const int64_t row_blocks = row_blocks_of<T>(args);
    const int64_t first_row = blockIdx.x % row_blocks * T::kRows;
    const auto unit = static_cast<uint32_t>(blockIdx.x / row_blocks);
    const UnitMatrices m = matrices_of(args, unit);
    const int64_t seen = args.sight.of(first_row + warp); // keys that the warp's row sees
    const int64_t end_key = seen_by_block<T>(args, first_row);
    const RowsOfUnit q{m.q, args.q.row, args.queries};
    const RowsOfUnit k{m.k, args.k.row, args.keys};
    const RowsOfUnit v{m.v, args.v.row, args.keys};

    // Loads as many chunks as kv holds, from this one on.
    const auto load_chunks = [&](const RowsOfUnit& matrix, int64_t first_key, int chunk) {
        __syncthreads(); // all warps have read what kv held before
#pragma unroll T::kTilesAtOnce
        for (int tile = 0; tile < T::kKeyTiles; ++tile)
#pragma unroll
            for (int held = 0; held < T::kHeldChunks; ++held)
                load_tile<T>(tiles.kv[held][tile], matrix, first_key + tile * kTile, (chunk + held) * kTile, args.dim);
        __syncthreads(); // kv is complete; before the first key so is q
    };

#pragma unroll 1
    for (int chunk = 0; chunk < T::kChunks; ++chunk)
        load_tile<T>(tiles.q[chunk], q, first_row, chunk * kTile, args.dim);

    Reference reference = empty_reference();
    Reference total_reference = empty_reference();
    float lane_sum = 0.0f; // meaningful in lanes 0..7
    typename T::Output output(tiles.output, warp, lane, lane_columns(args, m.out, first_row + warp, lane));

    for (int64_t load_key = 0; load_key < end_key; load_key += T::kKeys) {
        float scores[T::kKeyTiles] = {}; // of the lane's key in each tile
#pragma unroll
        for (int tile = 0; tile < T::kKeyTiles; ++tile) {
            const int64_t first_key = load_key + tile * kTile;
            if (tile > 0 && first_key >= end_key) break; // the same for the whole block
            const bool key_exists = first_key + lane < seen;

            if (tile == 0) { // the scores of all tiles, since V takes K's place
#pragma unroll T::kChunkUnroll
                for (int chunk = 0; chunk < T::kChunks; ++chunk) {
                    if (chunk % T::kHeldChunks == 0) load_chunks(k, load_key, chunk);
                    add_score_blocks<T>(scores, tiles.q[chunk][warp], tiles.kv[chunk % T::kHeldChunks], lane);
                }
            }
            const float s = scores[tile];

            const float tile_max = warp_max(key_exists ? s : -HUGE_VALF);
            if (!reference.covers(tile_max)) { // the same for the whole warp
                const Reference raised = reference_at(tile_max, args.scale);
                const float alpha = rescale_factor(reference, raised, args.scale);
                lane_sum *= alpha;
#pragma unroll T::kChunkUnroll
                for (int chunk = 0; chunk < T::kChunks; ++chunk) output.running(chunk) *= alpha;
                reference = raised;
            }

            // The warp has read its row of p; before the first tile, the barriers of K's chunks guarantee it.
            if (tile > 0) __syncwarp();
            tiles.p[warp][lane] = key_exists ? reference.weight(s, args.scale) : 0.0f;
            __syncwarp(); // the row is complete
            if (lane < kSumLanes) lane_sum += lane_share(&tiles.p[warp][lane * kLaneKeys]);

#pragma unroll T::kChunkUnroll
            for (int chunk = 0; chunk < T::kChunks; ++chunk) {
                if (tile == 0 && chunk % T::kHeldChunks == 0) load_chunks(v, load_key, chunk);
                add_values<T>(output.running(chunk), tiles.p[warp], tiles.kv[chunk % T::kHeldChunks][tile], lane);
            }

            const int64_t next_key = first_key + kTile;
            if (next_key % kSegmentKeys == 0 || next_key >= end_key) {
                const float alpha = rescale_factor(total_reference, reference, args.scale);
#pragma unroll T::kChunkUnroll
                for (int chunk = 0; chunk < T::kChunks; ++chunk) {
                    output.set_total(chunk, fused(output.total(chunk), alpha, output.running(chunk)));
                    output.running(chunk) = 0.0f;
                }
                total_reference = reference;
            }
        }
    }

    const float l = closed_lanes(lane_sum);
    const LaneColumns out = lane_columns(args, m.out, first_row + warp, lane);
    if (lane == 0 && first_row + warp < args.queries)
        args.store_statistics(unit, first_row + warp, {reference.M, reference.origin, l});
#pragma unroll T::kChunkUnroll
    for (int chunk = 0; chunk < T::kChunks; ++chunk)
        if (out.exists(chunk)) out.at(chunk) = seen > 0 ? result(output.total(chunk), 1.0f / l) : 0.0f;
}

template <class T>
void launch_row_tiling(const ForwardArgs& args, cudaStream_t stream) {
    row_tiles<T><<<static_cast<unsigned>(blocks_of<T>(args)), T::kThreads, 0, stream>>>(args);
}

// The caller checks the launch, under its rung's name.
template <class Choices, int kChunks>
void launch_rung(const ForwardArgs& args, cudaStream_t stream) {
    launch_row_tiling<RowTiling<Choices, RungBlock<Choices, kChunks>, kChunks>>(args, stream);
}

template <class Choices>
void launch_row_tiles(const Launch& launch, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    if (args.dim <= 1 * kTile) return launch_rung<Choices, 1>(args, stream);
    if (args.dim <= 2 * kTile) return launch_rung<Choices, 2>(args, stream);
    if (args.dim <= 4 * kTile) return launch_rung<Choices, 4>(args, stream);
    return launch_rung<Choices, 8>(args, stream);
}

// shared_tiles: tiles in shared memory, in the simplest way.
//
// Idea      32 query rows share every key: a block loads 32 keys at a time into shared memory and all its rows read
//           them there, so that K and V leave global memory once for 32 rows; plain_rows reads them for each row.
// Work      A block of 32 warps takes 32 query rows of a batch and walks over all keys; warp = query row. For the
//           scores lane = key, for the output lane = column (one in each chunk of 32 columns). For loads, lane = row
//           of the tile: adjacent lanes read a whole row apart. No inner loop is unrolled.
// Memory    Q 32 x D, one chunk of K or V 32 x 32, weights 32 x 32 and the running output 32 x D: 16 KiB for D = 32,
//           24 for 64, 40 for 128. With D = 256 that would be 72, so blocks have 16 rows then: 38 KiB, within the 48
//           that every GPU allows. The segments' totals are in the output, in global memory. Registers hold a lane's
//           score, its sum of weights and the row's reference: 38 to 61.
// Order     The contract's: a chunk of K is one block of the score's columns; lanes 0..7 of a warp hold the eight
//           sums; p*v in key order; after 64 keys the running output is folded into the totals.
// Limits    The 32 lanes that read a column of K use one bank: 32 passes for each load.
void launch_shared_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::shared>>(launch, stream);
    HW4_CUDA_LAUNCHED("shared_tiles");
}

// padded_tiles: shared_tiles without bank conflicts.
//
// Idea      The rows of the K and V tile are 33 floats apart: 32 lanes that read down a column use 32 different banks;
//           with rows of 32 floats they would all use one.
// Work      As in shared_tiles.
// Memory    As in shared_tiles, and 128 bytes more for the padding. Q and the weights need none: a warp reads its row
//           of them at one address (a broadcast).
// Order     As in shared_tiles.
// Limits    Each load from global memory touches 32 rows for 32 floats.
void launch_padded_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::padded>>(launch, stream);
    HW4_CUDA_LAUNCHED("padded_tiles");
}

// coalesced_tiles: padded_tiles with loads along the rows.
//
// Idea      For loads, lane = column of the tile: the 32 lanes of a warp read 128 contiguous bytes; with a lane
//           for each row of the tile they would read 4 bytes in 32 places.
// Work      Warp w loads row w of a tile (and row w + 16 if a block has 16 warps); else as in shared_tiles.
// Memory    As in padded_tiles.
// Order     As in shared_tiles.
// Limits    Every fma waits for its own two shared loads, and for the loop's counting and branch.
void launch_coalesced_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::coalesced>>(launch, stream);
    HW4_CUDA_LAUNCHED("coalesced_tiles");
}

// unrolled_tiles: coalesced_tiles with its inner loops unrolled.
//
// Idea      The 32 columns of a chunk and the 32 keys of a tile are unrolled: no counters, no branches, addresses
//           become constants in the instructions, and loads of later steps start before earlier ones have arrived.
//           The loop of the scores stores nothing in between, so the compiler even loads four floats of q at once.
// Work      As in coalesced_tiles.
// Memory    As in padded_tiles; 62 to 64 registers, 66 to 86 beyond d = 128.
// Order     As in shared_tiles: unrolling changes no order.
// Limits    p*v stores the running output to shared memory at every step, and loads the weights one float at a time.
void launch_unrolled_tiles(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RowChoices<RowRung::unrolled>>(launch, stream);
    HW4_CUDA_LAUNCHED("unrolled_tiles");
}

// register_rows: unrolled_tiles with the rows' output in registers.
//
// Idea      Data of a single thread need no memory: a lane's columns of the running output and of the totals stay
//           in registers for all keys. Nothing is stored in between any more, so the compiler loads four weights, like
//           four floats of q, at once.
// Work      As in unrolled_tiles; 32 query rows per block for every D.
// Memory    Q 32 x D, one chunk of K or V 32 x 33, weights 32 x 32: 12.1 KiB for D = 32, 16.1 for 64, 24.1 for 128,
//           40.1 for 256. 58 to 64 registers; 1024 threads can have no more.
// Order     As in shared_tiles.
// Limits    5 shared loads for 4 fma. At one load per clock and multiprocessor, this alone limits it to a fifth of the
//           rate of the fma units.
void launch_register_rows(const Launch& launch, cudaStream_t stream) {
    launch_row_tiles<RegisterRows>(launch, stream);
    HW4_CUDA_LAUNCHED("register_rows");
}

} // namespace hw4::gpu
