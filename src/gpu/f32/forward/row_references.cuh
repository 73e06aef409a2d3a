// The contract's references of a team's rows, for blocks with a row that has left the range of M = 0. They are in
// shared memory, because no register is free. A raise in the second 32 keys of a tile, which is a segment, multiplies
// the output of the first 32 keys, between the two.
#pragma once

#include "src/gpu/f32/forward/tile_weights.cuh"

namespace hw4::gpu {

// A barrier of the team's warps.
template <class T>
__device__ __forceinline__ void sync_team(int team) {
    if (T::kTeam == 1)
        __syncwarp();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(T::kTeam * kWarpSize) : "memory");
}

// Whether `here` is true for any thread of the team; a barrier for two warps.
template <class T>
__device__ __forceinline__ bool any_of_team(bool here, int team) {
    if (T::kTeam == 1) return __any_sync(kAllLanes, here);
    unsigned any;
    asm volatile("{\n"
                 ".reg .pred here, any;\n"
                 "setp.ne.u32 here, %1, 0;\n"
                 "bar.red.or.pred any, %2, %3, here;\n"
                 "selp.u32 %0, 1, 0, any;\n"
                 "}\n"
                 : "=r"(any)
                 : "r"(static_cast<unsigned>(here)), "r"(team + 1), "n"(T::kTeam * kWarpSize)
                 : "memory");
    return any != 0;
}

// The references of the weights of a tile's first or last 32 keys, by row.
struct alignas(16) HalfReferences {
    float bias[kWarpRows];
    float floor[kWarpRows];
    float origin[kWarpRows];
};

template <class T>
struct alignas(16) RowReferences {
    static constexpr int kHalves = T::kKeys / kKeyTile;
    static_assert(kHalves == 2 && kWarpRows == kWarpSize, "a lane for each row");

    HalfReferences half[kHalves];
    float raise_above[kWarpRows]; // of the last half
    // If a row is raised in this tile: the factors of its sums before a half, and of its totals. Before that, the
    // largest score of the half.
    float factor[kHalves][kWarpRows];
    float total_factor[kWarpRows];

    // Between tiles, the reference of a row.
    __device__ __forceinline__ Reference of(int row) const {
        const HalfReferences& last = half[kHalves - 1];
        return {kRoundToInt - last.bias[row], last.origin[row], last.bias[row], last.floor[row], raise_above[row]};
    }

    // The team's first warp calls it, each lane for the row with its number.
    __device__ __forceinline__ void put(int row, const Reference& reference) {
#pragma unroll
        for (HalfReferences& each : half) put(each, row, reference);
        raise_above[row] = reference.raise_above;
    }

    // Whether one of the thread's scores raises its row's reference.
    __device__ __forceinline__ bool is_exceeded(const Scores<T>& s, const Position& at) const {
        bool exceeded = false;
        float limit[kRowsPerThread];
        load_floats(limit, address_of(&raise_above[4 * at.down]), kSecondRows);
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i) {
            float most = s[i][0];
#pragma unroll
            for (int j = 1; j < T::kKT; ++j) most = larger(most, s[i][j]);
            exceeded = exceeded || most > limit[i];
        }
        return exceeded;
    }

    // The whole team calls it: raises references where the tile's scores require it, 32 keys after 32 keys.
    template <class Lanes>
    __device__ __forceinline__ void raise(const Scores<T>& s, const Position& at, Scale scale) {
        const int team = at.warp / T::kTeam;
        const int part = at.warp % T::kTeam;
#pragma unroll
        for (int first = 0; first < T::kKT; first += 4) {
            float(&most)[kWarpRows] = factor[T::kTeam == 1 ? first / 4 : part];
#pragma unroll
            for (int i = 0; i < kRowsPerThread; ++i) {
                const float top = largest_across<Lanes>(
                    larger(larger(s[i][first], s[i][first + 1]), larger(s[i][first + 2], s[i][first + 3])));
                if (at.across == 0) most[row_of(at, i)] = top;
            }
        }
        sync_team<T>(team);
        if (part == 0) raise_row(at.lane, scale);
        sync_team<T>(team);
    }

    // After a tile with a raised row, before the next one.
    __device__ __forceinline__ void settle(int row) { put(half[0], row, of(row)); }

private:
    static __device__ __forceinline__ void put(HalfReferences& to, int row, const Reference& reference) {
        to.bias[row] = kRoundToInt - reference.M; // infinite for a row that has seen no key
        to.floor[row] = reference.floor;
        to.origin[row] = reference.origin;
    }

    __device__ __forceinline__ void raise_row(int row, Scale scale) {
        const Reference before = of(row);
        Reference now = before;
#pragma unroll 1
        for (int n = 0; n < kHalves; ++n) {
            const float top = factor[n][row];
            const Reference raised = now.covers(top) ? now : reference_at(top, scale);
            factor[n][row] = rescale_factor(now, raised, scale);
            put(half[n], row, raised);
            now = raised;
        }
        total_factor[row] = rescale_factor(before, now, scale);
        raise_above[row] = now.raise_above;
    }
};

// For rows first to first + 3 of a thread, and the same for keys: turns scores into weights, in place.
template <class T>
__device__ __forceinline__ void weigh(Scores<T>& s, int first_row, int first_key, const HalfReferences& references,
                                      const Position& at, Scale scale) {
    const int place = row_of(at, first_row);
    float bias[4];
    float floor[4];
    float origin[4];
    load_floats(bias, address_of(&references.bias[place]), 0);
    load_floats(floor, address_of(&references.floor[place]), 0);
    load_floats(origin, address_of(&references.origin[place]), 0);
#pragma unroll
    for (int j = first_key; j < first_key + 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float& x = s[first_row + i][j];
            x = exp2_scaled(larger(x - origin[i], floor[i]), scale.c, bias[i]);
        }
}

// A factor for each of a thread's eight rows.
struct RowFactors {
    float of[kRowsPerThread];

    __device__ __forceinline__ RowFactors(const float (&rows)[kWarpRows], const Position& at) {
        load_floats(of, address_of(&rows[4 * at.down]), kSecondRows);
    }
};

template <int kN>
__device__ __forceinline__ void multiply_rows(float (&rows)[kRowsPerThread][kN], const RowFactors& factors) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (float& x : rows[i]) x *= factors.of[i];
}

// total * factor + o, with each row's own factor.
template <int kN>
__device__ __forceinline__ void add_rows(float (&total)[kRowsPerThread][kN], const RowFactors& factors,
                                         const float (&o)[kRowsPerThread][kN]) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
#pragma unroll
        for (int j = 0; j < kN; ++j) total[i][j] = fused(total[i][j], factors.of[i], o[i][j]);
}

__device__ __forceinline__ void multiply_rows(RowSums& sums, const RowFactors& factors) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i) sums.lane[i] *= factors.of[i];
}

// The sums that a team of two collects if rows were raised in the tile.
__device__ __forceinline__ void collect(RowSums& sums, const float (&first)[kRowsPerThread],
                                        const float (&second)[kRowsPerThread], const RowFactors& before_first,
                                        const RowFactors& before_second) {
#pragma unroll
    for (int i = 0; i < kRowsPerThread; ++i)
        sums.lane[i] = (sums.lane[i] * before_first.of[i] + first[i]) * before_second.of[i] + second[i];
}

// Turns all of a thread's scores into weights in the same way, with the references of their rows. Ragged: not all rows
// see all of the tile's keys. Returns whether references of any row of the team were raised.
template <class Lanes, class T, View kView>
__device__ __forceinline__ bool weigh_by_the_row(Scores<T>& s, RowSums& sums, RowReferences<T>& references,
                                                 SharedAddress to, bool ragged, const TileSight<T, kView>& sight,
                                                 Scale scale) {
    const Position at = position<Lanes>();
    const int part = at.warp % T::kTeam;
    const bool raised = any_of_team<T>(references.is_exceeded(s, at), at.warp / T::kTeam);
    if (raised) references.template raise<Lanes>(s, at, scale);
#pragma unroll
    for (int j = 0; j < T::kKT; j += 4) {
        const int half = T::kTeam == 1 ? j / 4 : part;
        if (T::kTeam == 1 && raised) multiply_rows(sums, RowFactors(references.factor[half], at));
        weigh<T>(s, 0, j, references.half[half], at, scale);
        weigh<T>(s, 4, j, references.half[half], at, scale);
        if (ragged) drop_hidden_keys(s, j, at, sight);
        store_weights<T>(s, j, to);
        if (T::kTeam == 1) add_own<T>(sums, s, j);
    }
    return raised;
}

} // namespace hw4::gpu
