// A block of a striped unit (split_striped_fold.cuh). Warp w of block r of `blocks`, with `warps` warps each, computes
// segment w * blocks + r and every segment a multiple of warps * blocks after it. The last two warps fold.
#pragma once

#include "src/gpu/f32/forward/split_striped_fold.cuh"

namespace hw4::gpu::split {

template <class T>
class StripedBlock : Block<T> {
    using Base = Block<T>;
    using Base::args_, Base::state_, Base::segment_, Base::thread_, Base::threads_, Base::keeps_, Base::warp,
        Base::first_tile_of, Base::part_of, Base::begin_unit, Base::assume_reference, Base::raises, Base::weigh;

public:
    using Base::Base;

    __device__ void run() {
        begin_stripe();
        const Work& work = state_.works[0];
        keeps_ = true;
        begin_unit(work, false);
        for (bool again = false;; again = true) { // once more if a reference changes, with the references that follow
            __syncthreads();
            if (warp() >= warps())
                fold(work.unit, again);
            else
                compute(work, again);
            __syncthreads();
            if (again || !must_repeat()) return;
            find_references();
        }
    }

private:
    // The warps that compute.
    __device__ __forceinline__ int warps() const { return threads_ / kWarpSize - kFoldWarps; }
    __device__ __forceinline__ unsigned* counters() const {
        return args_.stripes.counters + state_.stripe.unit * kCounters;
    }
    __device__ __forceinline__ Slot<T>* slots() const {
        return static_cast<Slot<T>*>(args_.stripes.slots) + int64_t{state_.stripe.unit} * args_.stripes.slots_of_unit;
    }

    __device__ void begin_stripe() {
        const auto block = static_cast<int>(blockIdx.x);
        const int blocks = args_.stripes.blocks_of_unit;
        const int unit = block / blocks;
        const int batch = unit / args_.units_of_batch();
        const int count = args_.segments_of_batch(batch);
        if (thread_ == 0) {
            state_.stripe = {unit, block % blocks, blocks, (count + kFoldBatch - 1) / kFoldBatch * kFoldBatch, count};
            state_.works[0] = part_of(Part::striped, {batch, unit % args_.units_of_batch(), 0, count}, 0, count);
            state_.repeat = false;
        }
        __syncthreads();
        const Stripe& stripe = state_.stripe;
        empty_slots();
        if (stripe.rank == 0) {
            // Segments that the unit does not have raise no reference.
            float4* const references = args_.stripes.references_of(stripe, 0, 0, T::kRows);
            for (int i = count * T::kRows * kTiles + thread_; i < stripe.segments * T::kRows * kTiles; i += threads_)
                references[i].x = -HUGE_VALF;
            if (thread_ < T::kRows) args_.stripes.inverse[unit * T::kRows + thread_] = float_of(kEmpty);
        }
        __syncthreads();
        if (thread_ == 0) add_release(counters() + kArrived, 1);
    }

    // Empties the block's slots. Segments that the unit does not have add 0.
    __device__ void empty_slots() {
        const Stripe& stripe = state_.stripe;
        for (int index = stripe.rank; index < stripe.segments; index += stripe.blocks)
            slots()[index].fill(index < stripe.count ? float_of(kEmpty) : 0.0f, thread_, threads_);
    }

    // ---- Segments

    // The warp's segments. Warp 0 begins with the tile that gives the reference.
    __device__ void compute(const Work& work, bool again) {
        constexpr int kTileKeys = T::kGroupKeys > kKeyTile ? T::kGroupKeys : kKeyTile;
        const int first = warp() * state_.stripe.blocks + state_.stripe.rank;
        const int step = warps() * state_.stripe.blocks;
        bool is_tile = !again && warp() == 0;
        segment_.copies.begin(args_, work, first, step, is_tile ? first_tile_of(work.unit) : -1);
        for (int segment = work.first + first; is_tile || segment < work.end;) {
            segment_.compute_scores(args_, (is_tile ? kTileKeys : kSegmentKeys) / T::kGroupKeys);
            if (is_tile) {
                is_tile = false;
                assume_reference();
                pass_count(state_.settled, 0);
                continue;
            }
            const int index = segment - work.first;
            const Raise<T> raise = again ? derived(index) : assumed(segment, index);
            weigh(segment, raise);
            float shares[kTiles][T::kLaneSums];
            segment_.add_weights(shares);
            segment_.add_values(args_, raise);
            store(slots()[index], shares);
            segment += step;
        }
    }

    // The references that were derived after a change.
    __device__ __forceinline__ Raise<T> derived(int index) const {
        const int lane = segment_.lane();
        const float4* const of =
            args_.stripes.references_of(state_.stripe, index, lane < T::kRows ? lane : 0, T::kRows);
        Raise<T> raise;
        raise.any = true;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
            const float4 is = __ldcg(of + tile);
            const Reference used = reference_of(RowStatistics{is.x, is.y, 0.0f}, args_.scale);
            raise.facts[tile] = {used.origin, used.floor, used.bias, 0.0f};
            raise.raised[tile] = is.z;
        }
        return raise;
    }

    // The assumed reference. Stores the largest scores of the segment's tiles if they would raise it.
    __device__ __forceinline__ Raise<T> assumed(int segment, int index) {
        const int lane = segment_.lane();
        const int row = lane < T::kRows ? lane : 0;
        wait_for_count(state_.settled, 0);
        Raise<T> raise;
        raise.any = false;
        raise.facts[0] = raise.facts[1] = state_.facts[row];
        raise.raised[0] = raise.raised[1] = 1.0f;
        float largest[kTiles] = {-HUGE_VALF, -HUGE_VALF};
        const bool changes = raises(segment);
        if (changes) {
#pragma unroll
            for (int i = 0; i < T::kRows; ++i)
#pragma unroll
                for (int tile = 0; tile < kTiles; ++tile) {
                    const float found = segment_.largest(tile, i, segment * kSegmentKeys, args_.window);
                    if (lane == i && found > raise.facts[0].above) largest[tile] = found;
                }
        }
        if (lane < T::kRows)
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile)
                args_.stripes.references_of(state_.stripe, index, row, T::kRows)[tile].x = largest[tile];
        if (changes) { // noted before the sums are stored
            if (lane == 0) store_release(counters() + kChanged, 1);
            __syncwarp();
            __threadfence();
        }
        return raise;
    }

    __device__ __forceinline__ void store(Slot<T>& slot, const float (&shares)[kTiles][T::kLaneSums]) const {
        segment_.each_piece([&](int row, int column, const float(&o)[Segment<T>::kStored]) {
            if constexpr (Segment<T>::kStored == 4)
                store_words(reinterpret_cast<float4*>(&slot.sums[row][column]), {o[0], o[1], o[2], o[3]});
            else
                store_words(reinterpret_cast<float2*>(&slot.sums[row][column]), {o[0], o[1]});
        });
        segment_.each_sum([&](int i, int row, int sum) {
            store_words(&slot.shares[row][sum], {shares[0][i], shares[1][i]});
        });
    }

    // ---- The warps that fold

    __device__ void fold(const Unit& unit, bool again) {
        const Stripe& stripe = state_.stripe;
        const int own = warp() - warps();
        const int worker = own * stripe.blocks + stripe.rank;
        if (worker >= kFolders<T>) return;
        if (!again) wait_for(counters() + kArrived, stripe.blocks);
        void* const memory = reinterpret_cast<char*>(&state_ + 1) + own * kFoldBytes; // behind the state
        const bool repeat = fold_chunks<T>(args_, unit, state_, memory, worker, kFoldWarps * stripe.blocks, again);
        if (segment_.lane() == 0) state_.repeat = repeat;
    }

    // Afterwards the warp can read all that other blocks wrote before the counter reached `count`.
    __device__ __forceinline__ void wait_for(const unsigned* counter, int count) const {
        if (segment_.lane() == 0) {
            while (load_relaxed(counter) < static_cast<unsigned>(count)) __nanosleep(200);
            __threadfence();
        }
        __syncwarp();
    }

    // Whether a score was above the assumed reference. Only warps that fold know that all segments have been
    // computed.
    __device__ bool must_repeat() {
        if (state_.stripe.rank >= kFolders<T>) {
            if (warp() == 0) {
                wait_for(counters() + kFinished, 1);
                if (thread_ == 0) state_.repeat = load_relaxed(counters() + kChanged) != 0;
            }
            __syncthreads();
        }
        return state_.repeat;
    }

    // The references of all tiles, after all blocks have stored the largest scores.
    __device__ void find_references() {
        const auto blocks = static_cast<unsigned>(state_.stripe.blocks);
        sync_unit(counters() + kArrived, 2 * blocks);
        empty_slots();
        const int all_warps = threads_ / kWarpSize * state_.stripe.blocks;
        for (int row = warp() * state_.stripe.blocks + state_.stripe.rank; row < T::kRows; row += all_warps) {
            const auto& first = state_.rows[row];
            derive_references<T>(args_, state_.stripe, row,
                                 reference_of(RowStatistics{first.first_M, first.first_origin, 0.0f}, args_.scale));
        }
        sync_unit(counters() + kArrived, 3 * blocks);
    }
};

template <class T>
__global__ void __launch_bounds__(T::kMostWarps* kWarpSize, 1) striped_kernel(const __grid_constant__ Args args) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(128) unsigned char striped_memory[];
    auto* const warps = reinterpret_cast<typename T::Warp*>(striped_memory); // of those that compute
    auto& state = *reinterpret_cast<typename T::State*>(warps + blockDim.x / kWarpSize - kFoldWarps);
    StripedBlock<T>(args, warps, state).run();
#else
    __trap();
#endif
}

} // namespace hw4::gpu::split
