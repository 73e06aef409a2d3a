// What the kernels of kept pairs are launched with: a round, some query rows of some units, whose P and dS are in
// memory at the same time.
#pragma once

#include "src/gpu/f32/backward/gradient_args.h"
#include "src/gpu/f32/backward/rounds.h"

namespace hw4::gpu {

constexpr int kSumRows = 128; // of a block of sums: keys, or queries

// A tile of pairs in memory: [32 rows][row of a lane][half of the keys][lane][four keys], so that a warp stores, and
// copies, 512 bytes in a line at once.
constexpr int kPairTile = 128 * 64;     // floats
constexpr int kPairLine = 128;          // of a warp: four keys a lane
constexpr int kPairRow = 2 * kPairLine; // from one row of a lane to the next
constexpr int kPairTeam = 8 * kPairRow; // and from 32 rows to the next

struct RoundArgs {
    GradientArgs all;    // the launch's
    uint32_t first_unit; // of the round's
    uint32_t units;
    int first_row; // a multiple of kGroupRows
    int rows;      // queries of each unit
    // P of the round's units, each in tiles of 128 rows and 64 keys, [unit][block of rows][tile of keys][kPairTile]; dS
    // so many floats further on. In a tile pairs stand as the lanes of a warp have them (kPairLine). Rows up to the
    // next multiple of 64, and keys likewise, have zeros where there is no pair; of keys that a query does not see only
    // those are there that sums read. After a block of keys there may be anything: only sums of dQ would read it.
    float* p;
    size_t ds_from_p;
    size_t pair_unit;
    uint32_t key_tiles; // of a row of tiles
    PairQueue queue;
    unsigned* drawn; // from the queue, so far
    // Where sums are apart, each group's for itself, [unit of the round][group][row][part_row]; else null. Not null
    // even of those that are not asked for.
    float* dq_parts;
    float* dk_parts;
    float* dv_parts;
    size_t part_row;
    uint32_t first_sum; // the job of the first block of sums: behind dK's and dV's where dQ alone is asked for

    HW4_INLINE const ForwardArgs& forward() const { return all.forward; }
    HW4_INLINE uint32_t unit(uint32_t of_round) const { return first_unit + of_round; }
    HW4_INLINE int keys() const { return static_cast<int>(all.forward.keys); }
    HW4_INLINE bool masked() const { return all.forward.sight.more != 0; }
    // Keys that a row of the round sees.
    HW4_INLINE int seen(int row) const { return static_cast<int>(all.forward.sight.of(first_row + row)); }
    HW4_INLINE int seen_by_rows(int first, int count) const {
        return seen((first + count < rows ? first + count : rows) - 1);
    }
    // The first row of the round that sees the key; where none does, as many as there are.
    HW4_INLINE int first_seeing(int key) const {
        const int64_t row = all.first_seeing(key) - first_row;
        return row < 0 ? 0 : row < rows ? static_cast<int>(row) : rows;
    }
    HW4_INLINE int row_groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
    HW4_INLINE int key_groups() const { return (keys() + kGroupRows - 1) / kGroupRows; }
};

// ---- The two large kernels of kept pairs, each with the tiling for its problem

// Shared memory that a block takes.
size_t pair_bytes(int dim, const Device& device);
size_t sum_bytes(int dim);

// Sets the queue of the round and its counter, then forms its pairs.
void launch_pairs(RoundArgs args, const Device& device, cudaStream_t stream);
// Computes the sums that are asked for.
void launch_sums(RoundArgs args, cudaStream_t stream);

// ---- Sums that were left apart, added up in the contract's order

// Where a unit's rows come in several rounds, what dK and dV have of it so far. What they have of the heads before
// waits in the output.
struct RunningTotals {
    float* dk = nullptr; // of the head of queries, [key][part_row]
    float* dv = nullptr;
    bool unit_begins = true; // the round has the first rows of its first unit
    bool unit_ends = true;   // and the last of its last
};

void join_sums(const RoundArgs& args, const RunningTotals& totals, cudaStream_t stream);

} // namespace hw4::gpu
