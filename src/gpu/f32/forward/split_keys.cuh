// split_keys: few query rows or heads, with the keys split among all blocks. The contract's sums do not depend
// on where the keys are split: a segment of 64 keys has sums of its own, and the totals add them in order.
//
// Idea      Every block has an equal share of all segments (split_work.h), or one unit if segments are few. The block
//           folds the segments of a unit that begins in its share into totals. It stores the sums of each segment of a
//           unit that began earlier; fold_kernel adds them up afterwards, in order. The time is that of reading K and V
//           once.
// Work      A warp computes a segment, for all rows of the unit (split_segment.cuh); the block's warps take segments in
//           turn. Twice a warp waits for the one with the segment before: until it knows the references, and until its
//           sums are in the totals. Each time the other is a turn ahead, so that waits are short and warps are busy
//           with different things.
// Memory    Each warp copies its own segments by cp.async to a ring of stages (split_copies.cuh), the next unit's first
//           ones before the unit ends. 16-bit elements are widened, exactly, when they are read, once for all rows.
// Reference Weights need the references that follow from all earlier keys. Few scores raise one.
//           A block does not know the reference of a unit that began earlier. It computes the scores of the first tile
//           and assumes that the reference has not changed since. If it has, a second launch computes the share
//           again, with the reference that follows from the tiles' largest scores; otherwise that launch ends at once.
// Order     The contract's. A factor of 1 changes no bit, so a fold may leave it out.
// Few units Three launches take long if the sequences are short: then split_striped_block.cuh does all in one.
// Limits    With 16-bit elements, eight rows are limited by instructions, not by memory. With few units, time passes
//           between the launches, and the fold of one row's segments is one chain.
#pragma once

#include "src/gpu/f32/forward/split_block.cuh"

namespace hw4::gpu::split {

template <class T>
class SegmentBlock : Block<T> {
    using Base = Block<T>;
    using E = typename T::E;
    using Row = typename T::Row;
    using Base::args_, Base::state_, Base::segment_, Base::thread_, Base::threads_, Base::keeps_, Base::warp,
        Base::first_tile_of, Base::part_of, Base::begin_unit, Base::set_first, Base::set_row, Base::assume_reference,
        Base::raises, Base::weigh;

public:
    using Base::Base;

    // Computes the share of this block; or, if `again`, its first unit again, if the reference had changed before. All
    // parts of units use one loop, so that its code exists once.
    __device__ void run(bool again) {
        if (const Share found = find_share(args_, blockIdx.x, gridDim.x); thread_ == 0) state_.share = found;
        __syncthreads();
        const Share& share = state_.share;
        if (share.first >= share.end) return;
        if (again && (share.hands_over || !began_earlier() || !has_changed_before(share))) return;
        if (thread_ == 0) state_.works[0] = work_after({Part::none, {}, 0, 0, 0}, again);
        __syncthreads();
        begin_copies(state_.works[0], again);
        for (int index = 0;; ++index) {
            const Work& work = state_.works[index % 2];
            if (work.part == Part::none) return;
            const Work& next = state_.works[(index + 1) % 2];
            keeps_ = work.part == Part::kept;
            begin_unit(work, again);
            if (thread_ == 0) state_.works[(index + 1) % 2] = work_after(work, again);
            if (work.part == Part::taken_over) take_over();
            if (keeps_ && again) find_reference(share);
            __syncthreads();
            compute(work, keeps_ && !again);
            if (next.part != Part::none) begin_copies(next, again);
            __syncthreads(); // all sums are in the totals
            if (work.part == Part::handed_over) {
                keep_totals();
                if (share.hands_over) hand_over();
            } else if (work.part == Part::kept) {
                keep_states(args_.scratch.last_states);
                if (!again) keep_changed(args_.scratch.changed_in_later);
            } else {
                write_output(work.unit);
            }
            __syncthreads(); // all threads are done with the unit
        }
    }

private:
    // ---- The parts of a share

    __device__ __forceinline__ bool began_earlier() const { return state_.share.first > state_.share.first_unit.first; }

    // The work after another, or the first one, after a work with no part.
    __device__ Work work_after(const Work& work, bool again) const {
        const Share& share = state_.share;
        const Unit& last = share.end_unit;
        const bool goes_on = share.end < share.all.segments && last.first < share.end;
        const int64_t stop = goes_on ? last.first : share.end; // of the whole units
        if (again) return work.part == Part::none ? first_of_share(Part::kept) : Work{Part::none, {}, 0, 0, 0};
        switch (work.part) {
        case Part::none:
            if (goes_on && last.first >= share.first) return part_of(Part::handed_over, last, last.first, share.end);
            [[fallthrough]];
        case Part::handed_over:
            if (began_earlier() && !share.hands_over) return first_of_share(Part::kept);
            [[fallthrough]];
        case Part::kept:
        case Part::whole: {
            const Unit unit = work.part == Part::whole ? unit_after(args_, work.unit)
                              : began_earlier()        ? unit_after(args_, share.first_unit)
                                                       : share.first_unit;
            if (unit.first < stop) return part_of(Part::whole, unit, unit.first, unit.first + unit.count);
            if (began_earlier() && share.hands_over) return first_of_share(Part::taken_over);
            break;
        }
        default: break;
        }
        return {Part::none, {}, 0, 0, 0};
    }

    __device__ Work first_of_share(Part part) const {
        const Share& share = state_.share;
        const Unit& unit = share.first_unit;
        return part_of(part, unit, share.first, min(share.end, unit.first + unit.count));
    }

    // ---- A unit's beginning

    __device__ __forceinline__ int warps() const { return threads_ / kWarpSize; }
    __device__ __forceinline__ void begin_copies(const Work& work, bool again) {
        const bool copies_tile = work.part == Part::kept && !again && warp() == 0;
        segment_.copies.begin(args_, work, warp(), warps(), copies_tile ? first_tile_of(work.unit) : -1);
    }

    // Finds the reference before the block's first segment, from the state at the end of the unit's first block and the
    // largest scores of all tiles between.
    __device__ void find_reference(const Share& share) {
        const Shares& shares = share.all;
        const int64_t first_block = shares.block_of(share.first_unit.first);
        const int64_t begin = shares.first(first_block + 1);
        const int64_t tiles = (share.first - begin) * kTiles;
        __syncthreads(); // the rows are there
        for (int i = warp(); i < T::kRows; i += warps()) {
            const RowState& state = args_.scratch.states[first_block * T::kRows + i];
            Reference reference = reference_of(RowStatistics{state.M, state.origin, 0.0f}, args_.scale);
            for (int64_t tile = 0; tile < tiles; tile += kWarpSize) {
                const int64_t mine = tile + segment_.lane();
                const float largest =
                    mine < tiles ? factors(begin + mine / kTiles, i).largest[mine % kTiles] : -HUGE_VALF;
                each_raise(reference, largest, args_.scale, [](int, const Reference&) {});
            }
            if (segment_.lane() != 0) continue;
            Row row = state_.rows[i];
            row.reference = reference;
            set_first(row, reference_of(RowStatistics{state.first_M, state.first_origin, 0.0f}, args_.scale));
            set_row(i, row);
        }
    }

    __device__ bool has_changed_before(const Share& share) const {
        const Shares& shares = share.all;
        const int64_t first_block = shares.block_of(share.first_unit.first);
        return args_.scratch.changed_in_first[first_block] != 0 ||
               has_changed_later(args_, shares, first_block, blockIdx.x);
    }

    // ---- Segments

    // The warp's segments. If a reference is assumed, warp 0 begins with the tile that gives it.
    __device__ void compute(const Work& work, bool assumes) {
        constexpr int kTileKeys = T::kGroupKeys > kKeyTile ? T::kGroupKeys : kKeyTile;
        bool is_tile = assumes && warp() == 0;
        for (int segment = work.first + warp(); is_tile || segment < work.end;) {
            segment_.compute_scores(args_, (is_tile ? kTileKeys : kSegmentKeys) / T::kGroupKeys);
            if (is_tile) {
                is_tile = false;
                assume_reference();
                pass_count(state_.settled, 0);
                continue;
            }
            const int index = segment - work.first;
            const Raise<T> raise = settle(segment, index);
            weigh(segment, raise);
            float shares[kTiles][T::kLaneSums];
            segment_.add_weights(shares);
            segment_.add_values(args_, raise);
            if (keeps_) {
                keep_segment(work.line + segment, raise, shares);
            } else {
                wait_for_count(state_.added, index);
                segment_.add_sums(raise);
                add_shares(raise, shares);
                pass_count(state_.added, index + 1);
            }
            segment += warps();
        }
    }

    // Raises references if a score of the segment does; all earlier segments' scores have done so. Most segments raise
    // none, and know it before their turn: references do not fall. If sums are kept, the assumed reference may be too
    // low, and a tile's largest score is stored if it would raise the first one.
    __device__ __forceinline__ Raise<T> settle(int segment, int index) {
        const int lane = segment_.lane();
        const bool may_raise = raises(segment);
        wait_for_count(state_.settled, index);
        Raise<T> raise;
        raise.facts[0] = raise.facts[1] = state_.facts[lane < T::kRows ? lane : 0];
        raise.raised[0] = raise.raised[1] = raise.rescale = 1.0f;
        raise.largest[0] = raise.largest[1] = -HUGE_VALF;
        raise.any = may_raise && raises(segment);
        if (raise.any) raise_references(segment, raise);
        pass_count(state_.settled, index + 1);
        return raise;
    }

    __device__ __forceinline__ void raise_references(int segment, Raise<T>& raise) {
        const int lane = segment_.lane();
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int i = 0; i < T::kRows; ++i) {
                const float largest = segment_.largest(tile, i, segment * kSegmentKeys, args_.window);
                if (lane == i) raise.largest[tile] = largest;
            }
        if (lane >= T::kRows) return;
        Row row = state_.rows[lane];
        const Reference before = row.reference;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
            if (!row.reference.covers(raise.largest[tile])) {
                const Reference to = reference_at(raise.largest[tile], args_.scale);
                raise.raised[tile] = rescale_factor(row.reference, to, args_.scale);
                row.reference = to;
                if (!keeps_ && segment * kTiles + tile == state_.first_tile)
                    set_first(row, to);
                else
                    row.changed = true;
            }
            const Reference& used = row.reference;
            raise.facts[tile] = {used.origin, used.floor, used.bias, 0.0f};
        }
        if (before.M != row.reference.M || before.origin != row.reference.origin)
            raise.rescale = rescale_factor(before, row.reference, args_.scale);
        set_row(lane, row);
    }

    __device__ __forceinline__ void add_shares(const Raise<T>& raise, const float (&shares)[kTiles][T::kLaneSums]) {
        float factors[kTiles][T::kLaneSums];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int i = 0; i < T::kLaneSums; ++i)
                factors[tile][i] = raise.any ? __shfl_sync(kAllLanes, raise.raised[tile],
                                                           (i * kWarpSize + segment_.lane()) / kSumLanes % T::kRows)
                                             : 1.0f;
        segment_.each_sum([&](int i, int row, int sum) {
            float running = state_.running[row][sum];
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) running = running * factors[tile][i] + shares[tile][i];
            state_.running[row][sum] = running;
        });
    }

    // Stores the sums and factors of a segment of the line.
    __device__ __forceinline__ void keep_segment(int64_t segment, const Raise<T>& raise,
                                                 const float (&shares)[kTiles][T::kLaneSums]) {
        segment_.store_sums(args_.scratch.sums + segment * T::kRows * T::kDim);
        segment_.each_sum([&](int i, int row, int sum) {
            *reinterpret_cast<float2*>(factors(segment, row).shares[sum]) = {shares[0][i], shares[1][i]};
        });
        if (segment_.lane() >= T::kRows) return;
        SegmentFactors& kept = factors(segment, segment_.lane());
        // A repeated share stores the same largest scores, since first_above is the same: other blocks may read them.
        *reinterpret_cast<float4*>(kept.raised) = {raise.raised[0], raise.raised[1], raise.largest[0],
                                                   raise.largest[1]};
        // Also what is unused, so that whole sectors are written.
        *reinterpret_cast<float4*>(&kept.rescale) = {raise.rescale, 0.0f, 0.0f, 0.0f};
    }

    // ---- A unit's end

    __device__ void write_output(const Unit& unit) {
        if (thread_ < T::kRows) {
            const float l = close_lanes(state_.running[thread_]);
            state_.inverse[thread_] = l > 0 ? 1.0f / l : 0.0f;
            const Reference& reference = state_.rows[thread_].reference;
            const RowPlace place = place_of(args_, unit, thread_, T::kRows);
            if (place.exists) store_statistics(args_, place, {reference.M, reference.origin, l});
        }
        __syncthreads();
        for (int i = thread_; i < T::kRows * T::kDim; i += threads_) {
            const int row = i / T::kDim;
            const int column = i % T::kDim;
            const RowPlace place = place_of(args_, unit, row, T::kRows);
            if (!place.exists || column >= args_.dim) continue;
            E* const out = const_cast<E*>(args_.out.template of<E>(place.batch, place.head));
            narrow_to(out[place.query * args_.out.row + column],
                      result(state_.totals[row][column], state_.inverse[row]));
        }
    }

    __device__ void keep_totals() {
        keep_states(args_.scratch.states);
        keep_changed(args_.scratch.changed_in_first);
        float* const to = args_.scratch.totals + int64_t{blockIdx.x} * T::kRows * T::kDim;
        for (int i = thread_; i < T::kRows * T::kDim; i += threads_) to[i] = state_.totals[0][i];
    }

    // Loads what the previous block stored of the unit.
    __device__ void take_over() {
        const int64_t block = int64_t{blockIdx.x} - 1;
        if (thread_ == 0)
            while (load_acquire(args_.scratch.handed_over + block) == 0) __nanosleep(100);
        __syncthreads();
        const RowState* const states = args_.scratch.states + block * T::kRows;
        if (thread_ < T::kRows) {
            const RowStatistics statistics{__ldcg(&states[thread_].M), __ldcg(&states[thread_].origin), 0.0f};
            Row row = state_.rows[thread_];
            row.reference = reference_of(statistics, args_.scale);
            set_row(thread_, row);
        }
        for (int i = thread_; i < T::kSums; i += threads_)
            state_.running[i / kSumLanes][i % kSumLanes] = __ldcg(&states[i / kSumLanes].lanes[i % kSumLanes]);
        const float* const from = args_.scratch.totals + block * T::kRows * T::kDim;
        for (int i = thread_; i < T::kRows * T::kDim; i += threads_) state_.totals[0][i] = __ldcg(from + i);
    }

    __device__ void hand_over() {
        __syncthreads();
        if (thread_ == 0) store_release(args_.scratch.handed_over + blockIdx.x, 1);
    }

    __device__ void keep_states(RowState* states) {
        states += int64_t{blockIdx.x} * T::kRows;
        for (int i = thread_; i < T::kSums; i += threads_)
            states[i / kSumLanes].lanes[i % kSumLanes] = state_.running[i / kSumLanes][i % kSumLanes];
        if (thread_ >= T::kRows) return;
        const Row& row = state_.rows[thread_];
        states[thread_].M = row.reference.M;
        states[thread_].origin = row.reference.origin;
        states[thread_].first_M = row.first_M;
        states[thread_].first_origin = row.first_origin;
    }

    __device__ void keep_changed(int* to) {
        const int any = __syncthreads_or(thread_ < T::kRows && state_.rows[thread_].changed);
        if (thread_ == 0) to[blockIdx.x] = any;
    }

    // The factors of a row of a segment of the line.
    __device__ __forceinline__ SegmentFactors& factors(int64_t segment, int row) const {
        return args_.scratch.factors[segment * T::kRows + row];
    }
};

template <class T>
__global__ void __launch_bounds__(T::kMostWarps* kWarpSize, 1)
    segments_kernel(const __grid_constant__ Args args, bool again) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(128) unsigned char segments_memory[];
    auto* const warps = reinterpret_cast<typename T::Warp*>(segments_memory);
    auto& state = *reinterpret_cast<typename T::State*>(warps + blockDim.x / kWarpSize);
    SegmentBlock<T>(args, warps, state).run(again);
#else
    __trap();
#endif
}

} // namespace hw4::gpu::split
