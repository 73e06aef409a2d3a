// From a register tile of scores to weights in shared memory, with the row sums.
#pragma once

#include "src/gpu/f32/forward/register_tile.cuh"

namespace hw4::gpu {

// The weights of a team's 32 rows and a tile's 64 keys, a key's 32 rows contiguous. Every eighth key begins 16 floats
// later, every odd group of four 8 floats later: the eight lanes that store together, of four groups of four keys and
// two of four rows, use different banks, and eight keys are a constant step for the threads that read.
constexpr int kEightKeys = 8 * kWarpRows + 16;
__host__ __device__ constexpr int weight_offset(int key) {
    return key / 8 * kEightKeys + key % 8 * kWarpRows + key % 8 / 4 * 8;
}
constexpr int kWeightFloats = weight_offset(kSegmentKeys + kSpareSteps);

template <class T>
using Scores = float[kRowsPerThread][T::kKT];

// A row's largest value, for all lanes that have a part of the row.
template <class Lanes>
__device__ __forceinline__ float largest_across(float x) {
#pragma unroll
    for (int bit = 0; bit < 3; ++bit) x = larger(x, __shfl_xor_sync(kAllLanes, x, Lanes::across_bit(bit)));
    return x;
}

// The keys that the rows of a problem see. Each view has kernels of its own: a window costs one more instruction for
// each score of a ragged tile, and registers.
enum class View { all, causal, window };

// The keys of a tile that the rows of a block see: the block's first row sees the keys before `first` and, under the
// causal mask, each row one more than the row before. A row sees only the last `window` of these keys.
template <class T, View kView>
struct TileSight {
    int first;
    unsigned window = 0; // only read by View::window

    // Whether the thread's row i sees its key j.
    __device__ __forceinline__ bool sees(const Position& at, int i, int j) const {
        const int key = place_of(at, j) + at.warp % T::kTeam * T::kWarpKeys;
        if (kView == View::all) return key < first;
        const int end = first + row_at_place<T, true>(at.warp / T::kTeam * kWarpRows + row_of(at, i));
        if (kView == View::causal) return key < end;
        return static_cast<unsigned>(end - 1 - key) < window; // a later key is below 0 and wraps
    }
};

// In base-2 units, while weights are measured by zero: a score that starts low but stays in range.
constexpr float kHidden = -40.0f;
static_assert(kHidden < -kFootroom && kHidden > -(kHeadroom - 1.0f));

// Hidden keys get a score that raises no maximum. Without a mask this is not needed: a key that does not exist is read
// as the last one.
template <class T, View kView>
__device__ __forceinline__ void hide_scores(Scores<T>& s, const Position& at, const TileSight<T, kView>& sight,
                                            float hidden) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int j = 0; j < T::kKT; ++j)
            if (!sight.sees(at, i, j)) s[i][j] = hidden;
}

// Whether some row's largest score of 32 keys is so low that the contract's M would not start at 0. Called by the warp
// that has the row's first keys.
template <class T, class Lanes>
__device__ __forceinline__ bool starts_low(const Scores<T>& s, Scale scale) {
    bool low = false;
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) {
        const float most =
            largest_across<Lanes>(larger(larger(s[i][0], s[i][1]), larger(s[i][2], s[i][3]))); // by all lanes
        low = low || most < -(kFootroom - 1.0f) * scale.inv_c;
    }
    return low;
}

// The thread's lane of the sums of its eight rows.
struct RowSums {
    float lane[kRowsPerThread];
};

// These sums between tiles, if the scores need their registers: in shared memory, separate for each thread.
template <class T>
struct WaitingSums {
    float rows[2][T::kSumsWait ? T::kThreads : 1][4];

    __device__ __forceinline__ RowSums take() const {
        RowSums sums;
        load_floats(sums.lane, address_of(rows[0][thread_in_block()]), sizeof(rows[0]));
        return sums;
    }
    __device__ __forceinline__ void put(const RowSums& sums) {
        const SharedAddress to = address_of(rows[0][thread_in_block()]);
        store4(to, sums.lane[0], sums.lane[1], sums.lane[2], sums.lane[3]);
        store4(to + sizeof(rows[0]), sums.lane[4], sums.lane[5], sums.lane[6], sums.lane[7]);
    }
};

// ---- The functions below handle keys j to j + 3 of a thread: the weights of four keys are being stored to shared
// memory while the next four keys' weights are computed.

// Turns scores into weights with M = 0, in place. Returns the largest |score|, or `largest` if that is larger: above
// (kHeadroom - 1) * inv_c the weights may not be the contract's.
template <class T, class Part = EveryRow>
__device__ __forceinline__ float weigh(Scores<T>& s, int first, float largest, Scale scale) {
#pragma unroll
    for (int j = first; j < first + 4; ++j)
#pragma unroll
        for (int i = Part::from(j); i < kRowsPerThread; ++i) {
            largest = fmaxf(largest, fabsf(s[i][j]));
            s[i][j] = exp2_scaled(s[i][j], scale.c, kRoundToInt);
        }
    return largest;
}

// Sets the weights of keys that a row does not see to 0.
template <class T, View kView>
__device__ __forceinline__ void drop_hidden_keys(Scores<T>& s, int first, const Position& at,
                                                 const TileSight<T, kView>& sight) {
#pragma unroll
    for (int j = first; j < first + 4; ++j)
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i)
            if (!sight.sees(at, i, j)) s[i][j] = 0.0f;
}

// `to`: the place of the thread's first key and row.
template <class T, class Part = EveryRow>
__device__ __forceinline__ void store_weights(const Scores<T>& s, int first, SharedAddress to) {
#pragma unroll
    for (int j = first; j < first + 4; ++j) {
        const SharedAddress key = to + 4 * weight_offset(j / 4 * 4 * kAcross) + 4 * (j % 4 * kWarpRows);
        if (Part::from(j) < 4) store4(key, s[0][j], s[1][j], s[2][j], s[3][j]);
        store4(key + kSecondRows, s[4][j], s[5][j], s[6][j], s[7][j]);
    }
}

// For a team of one, which has all keys of a tile.
template <class T, class Part = EveryRow>
__device__ __forceinline__ void add_own(RowSums& sums, const Scores<T>& s, int first) {
#pragma unroll
    for (int i = Part::from(first); i < kRowsPerThread; ++i) sums.lane[i] += lane_share(&s[i][first]);
}

// Turns all of a thread's scores into weights with M = 0, stores them and, for a team of one, adds them up. kRagged:
// not all rows see all of the tile's keys. Returns the same as weigh().
template <bool kRagged, class Part = EveryRow, class T, View kView>
__device__ __forceinline__ float weigh_by_zero(Scores<T>& s, RowSums& sums, float largest, SharedAddress to,
                                               const Position& at, const TileSight<T, kView>& sight, Scale scale) {
#pragma unroll
    for (int j = 0; j < T::kKT; j += 4) {
        largest = weigh<T, Part>(s, j, largest, scale);
        if (kRagged) drop_hidden_keys(s, j, at, sight);
        store_weights<T, Part>(s, j, to);
        if (T::kTeam == 1) add_own<T, Part>(sums, s, j);
    }
    return largest;
}

// Each warp of a team of two has one of the tile's two 32-key tiles: they exchange their sums and both add both, in key
// order. Offered before a barrier, collected after it.
template <class T>
__device__ __forceinline__ void offer(const Scores<T>& s, float (&mine)[kRowsPerThread]) {
    const SharedAddress to = address_of(mine);
    store4(to, lane_share(s[0]), lane_share(s[1]), lane_share(s[2]), lane_share(s[3]));
    store4(to + 16, lane_share(s[4]), lane_share(s[5]), lane_share(s[6]), lane_share(s[7]));
}

__device__ __forceinline__ void collect(RowSums& sums, const float (&first)[kRowsPerThread],
                                        const float (&second)[kRowsPerThread]) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) sums.lane[i] = (sums.lane[i] + first[i]) + second[i];
}

template <class Lanes>
__device__ __forceinline__ float closed(float lane_sum) {
#pragma unroll
    for (int bit = 0; bit < 3; ++bit) lane_sum += __shfl_xor_sync(kAllLanes, lane_sum, Lanes::across_bit(bit));
    return lane_sum;
}

} // namespace hw4::gpu
