// What the blocks of split_keys have in common: a unit's beginning, and whether scores raise its references.
#pragma once

#include <climits>

#include "src/gpu/f32/forward/split_segment.cuh"

namespace hw4::gpu::split {

// A counter in shared memory: what a lane stored before its warp's pass() is there after another warp's wait().
__device__ __forceinline__ void wait_for_count(const int& counter, int count) {
    for (;;) {
        int now;
        asm volatile("ld.acquire.cta.shared.s32 %0, [%1];" : "=r"(now) : "r"(address_of(&counter)) : "memory");
        if (now == count) break;
        __nanosleep(20);
    }
    __syncwarp();
}

__device__ __forceinline__ void pass_count(int& counter, int count) {
    __syncwarp();
    if (threadIdx.x % kWarpSize == 0)
        asm volatile("st.release.cta.shared.s32 [%0], %1;" ::"r"(address_of(&counter)), "r"(count) : "memory");
}

// Raises a reference by the lanes' largest scores, one lane after the other. Before each raise the warp calls
// work(lane, reference afterwards).
template <class F>
__device__ __forceinline__ void each_raise(Reference& reference, float largest, Scale scale, const F& work) {
    for (unsigned left = kAllLanes; left != 0;) {
        const unsigned above = __ballot_sync(kAllLanes, !reference.covers(largest)) & left;
        if (above == 0) break;
        const int at = __ffs(static_cast<int>(above)) - 1;
        const Reference to = reference_at(__shfl_sync(kAllLanes, largest, at), scale);
        work(at, to);
        reference = to;
        left = at == kWarpSize - 1 ? 0 : kAllLanes << (at + 1);
    }
}

template <class T>
class Block {
    using E = typename T::E;
    using Row = typename T::Row;

public:
    __device__ Block(const Args& args, typename T::Warp* warps, typename T::State& state)
        : args_(args), state_(state), segment_(warps[threadIdx.x / kWarpSize], state),
          thread_(static_cast<int>(threadIdx.x)), threads_(static_cast<int>(blockDim.x)) {}

protected:
    __device__ __forceinline__ int warp() const { return thread_ / kWarpSize; }
    __device__ __forceinline__ int first_tile_of(const Unit& unit) const {
        return args_.first_key_of(unit.batch) / kKeyTile;
    }

    // Segments [from, to) of the line.
    __device__ Work part_of(Part part, const Unit& unit, int64_t from, int64_t to) const {
        const int before = args_.first_key_of(unit.batch) / kSegmentKeys; // segments that no row sees
        const int64_t line = unit.first - before;
        return {part, unit, static_cast<int>(from - line), static_cast<int>(to - line), line};
    }

    __device__ void begin_unit(const Work& work, bool again) {
        const Unit& unit = work.unit;
        for (int i = thread_; i < T::kRows * T::kDim; i += threads_) {
            const int row = i / T::kDim;
            const int column = i % T::kDim;
            const RowPlace place = place_of(args_, unit, row, T::kRows);
            float value = 0.0f;
            if (place.exists && column < args_.dim)
                value = widened(args_.q.template of<E>(place.batch, place.head)[place.query * args_.q.row + column]);
            state_.q[row][column % kScoreColumns / 4][column / kScoreColumns][column % 4] = value;
            state_.totals[row][column] = 0.0f;
        }
        for (int i = thread_; i < T::kSums; i += threads_) state_.running[i / kSumLanes][i % kSumLanes] = 0.0f;
        if (warp() > 0) return;
        const bool is_row = thread_ < T::kRows;
        const RowPlace place = place_of(args_, unit, is_row ? thread_ : 0, T::kRows);
        // The first row exists. Others have zeros for queries, and a reference that their scores do not raise.
        const int seen = place.exists ? place.seen : 0;
        if (is_row) {
            const Reference reference = place.exists ? empty_reference() : reference_at(0.0f, args_.scale);
            Row row{reference, 0, 0, 0, seen, false};
            set_first(row, reference);
            set_row(thread_, row);
        }
        const int least = __reduce_min_sync(kAllLanes, place.exists ? seen : INT_MAX);
        const int most = __reduce_max_sync(kAllLanes, seen);
        if (thread_ > 0) return;
        state_.least_seen = least;
        state_.most_seen = most;
        state_.first_tile = first_tile_of(unit);
        state_.settled = keeps_ && !again ? -1 : 0;
        state_.added = 0;
    }

    static __device__ __forceinline__ void set_first(Row& row, const Reference& first) {
        row.first_M = first.M;
        row.first_origin = first.origin;
        row.first_above = first.raise_above;
    }

    __device__ __forceinline__ void set_row(int index, const Row& row) {
        const Reference& now = row.reference;
        state_.rows[index] = row;
        state_.facts[index] = {now.origin, now.floor, now.bias, keeps_ ? row.first_above : now.raise_above};
    }

    // Assumes the reference of the unit's first tile, whose scores the warp has. A row with a later window has none
    // yet: its first tile raises it.
    __device__ __forceinline__ void assume_reference() {
#pragma unroll
        for (int i = 0; i < T::kRows; ++i) {
            const float largest = segment_.largest(0, i, state_.first_tile * kKeyTile, args_.window);
            if (segment_.lane() != i) continue;
            Row row = state_.rows[i];
            if (!row.reference.covers(largest)) row.reference = reference_at(largest, args_.scale);
            set_first(row, row.reference);
            set_row(i, row);
        }
    }

    // Whether a score of the segment raises a reference.
    __device__ __forceinline__ bool raises(int segment) const {
        bool is_above[kTiles][T::kRows];
        bool any = false;
#pragma unroll
        for (int row = 0; row < T::kRows; ++row) {
            const float above = state_.facts[row].above;
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile)
                any = (is_above[tile][row] = segment_.score(tile, row) > above) || any;
        }
        if (!__any_sync(kAllLanes, any)) return false;
        any = false; // keys that a row does not see have scores too
#pragma unroll
        for (int row = 0; row < T::kRows; ++row)
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile)
                any = any || (is_above[tile][row] && segment_.sees(row, segment, tile, args_.window));
        return __any_sync(kAllLanes, any) != 0;
    }

    __device__ __forceinline__ void weigh(int segment, const Raise<T>& raise) {
        if (segment_.all_seen(segment, args_.window))
            segment_.template weigh<true>(args_, segment, raise);
        else
            segment_.template weigh<false>(args_, segment, raise);
    }

    const Args& args_;
    typename T::State& state_;
    Segment<T> segment_;
    const int thread_, threads_;
    bool keeps_ = false; // the sums of the segments are stored
};

} // namespace hw4::gpu::split
