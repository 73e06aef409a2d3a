// The arguments of the kernels of kept_pairs: a round, that is, some query rows of some units with P and dS in memory
// at the same time.
#pragma once

#include "src/gpu/f32/backward/gradient_args.h"
#include "src/gpu/f32/backward/rounds.h"

namespace hw4::gpu {

constexpr int kSumRows = 128; // in a block of sums: keys, or queries

// A tile of pairs in memory: [32 rows][row of a lane][half of the keys][lane][four keys], so that a warp stores and
// copies 512 contiguous bytes at once.
constexpr int kPairTile = 128 * 64;     // floats
constexpr int kPairLine = 128;          // of a warp: four keys per lane
constexpr int kPairRow = 2 * kPairLine; // from one row of a lane to the next
constexpr int kPairTeam = 8 * kPairRow; // and from 32 rows to the next

struct RoundArgs {
    GradientArgs all;    // the launch's
    uint32_t first_unit; // of the round's
    uint32_t units;
    int first_row; // a multiple of kGroupRows
    int rows;      // queries of each unit
    // P of the round's units, in tiles of 128 rows and 64 keys, [unit][block of rows][tile of keys][kPairTile]; dS is
    // `ds_from_p` floats behind P. Within a tile pairs have the order of a warp's lanes (kPairLine). Rows, and keys, up
    // to the next multiple of 64 are zeros if there is no pair; of the keys that a query does not see, only keys that
    // sums read are stored. Behind a block of keys memory is undefined: only sums of dQ would read it.
    float* p;
    size_t ds_from_p;
    size_t pair_unit;
    uint32_t key_tiles; // in a row of tiles
    PairQueue queue;
    unsigned* drawn; // pieces drawn from the queue so far
    // If groups are summed separately: [unit of the round][group][row][part_row]; else null. Not null even for
    // gradients that are not wanted.
    float* dq_parts;
    float* dk_parts;
    float* dv_parts;
    size_t part_row;
    uint32_t first_sum; // the job of the first block of sums: behind the blocks of dK and dV if only dQ is wanted

    HW4_INLINE const ForwardArgs& forward() const { return all.forward; }
    HW4_INLINE uint32_t unit(uint32_t of_round) const { return first_unit + of_round; }
    HW4_INLINE int keys() const { return static_cast<int>(all.forward.keys); }
    HW4_INLINE bool masked() const { return all.forward.sight.more != 0; }
    // The number of keys that a row of the round sees.
    HW4_INLINE int seen(int row) const { return static_cast<int>(all.forward.sight.of(first_row + row)); }
    HW4_INLINE int seen_by_rows(int first, int count) const {
        return seen((first + count < rows ? first + count : rows) - 1);
    }
    // The first row of the round that sees the key; the number of rows if none does.
    HW4_INLINE int first_seeing(int key) const {
        const int64_t row = all.first_seeing(key) - first_row;
        return row < 0 ? 0 : row < rows ? static_cast<int>(row) : rows;
    }
    HW4_INLINE int row_groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
    HW4_INLINE int key_groups() const { return (keys() + kGroupRows - 1) / kGroupRows; }
};

// ---- The two large kernels of kept_pairs, each with the tiling for its problem

// Shared memory of a block.
size_t pair_bytes(int dim, const Device& device);
size_t sum_bytes(int dim);

// Sets the queue of the round and its counter, then forms its pairs.
void launch_pairs(RoundArgs args, const Device& device, cudaStream_t stream);
// Computes the sums that are wanted.
void launch_sums(RoundArgs args, cudaStream_t stream);

// ---- Separate sums of groups, added up in the contract's order

// If a unit's rows come in several rounds: the sums of dK and dV over its rows so far. The sums over earlier heads are
// stored in the output.
struct RunningTotals {
    float* dk = nullptr; // of the head of queries, [key][part_row]
    float* dv = nullptr;
    bool unit_begins = true; // the round has the first rows of its first unit
    bool unit_ends = true;   // the round has the last rows of its last unit
};

void join_sums(const RoundArgs& args, const RunningTotals& totals, cudaStream_t stream);

} // namespace hw4::gpu
