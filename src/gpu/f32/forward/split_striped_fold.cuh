// Few units: several blocks share a unit, and its segments go round their warps, so that segments become ready in
// order. While the other warps compute, two warps of each block fold the segments that are ready. One launch does all.
//
// Slots     A warp stores the sums of a segment in the segment's slot. A word of a slot is empty or has its number, so
//           that no word needs a flag or a fence.
// Chunks    A unit's sums are chunks of 32 columns of a row, and of 32 running sums. One warp folds a chunk.
// Reference All segments assume the reference of the first tile. A warp notes a higher score. If there is one, the
//           references are derived from the tiles' largest scores, and the unit's segments are computed again.
// Launch    Blocks of a unit wait for one another, so that all blocks must run at the same time (a cooperative launch).
// Limits    Every segment needs a slot, which is emptied first, and all units take as long as the longest: three
//           launches take less time for long sequences and for several of different lengths.
// Tried     A ring of slots for long sequences, which warps wait for: 0.8 of the speed of three launches at 131072
//           keys, since a segment waits for all before it. Segments that a block's warps take as they come: the same.
#pragma once

#include "src/gpu/f32/forward/split_block.cuh"

namespace hw4::gpu::split {

// No sum is this NaN: the results of additions and fused operations have another one, 0x7fffffff.
constexpr uint32_t kEmpty = 0xffffffffu;

// The counters of a unit: arrivals of its blocks, at the beginning and at each sync_unit(); whether a score is above
// the assumed reference; whether a warp has read sums of all segments.
constexpr int kArrived = 0, kChanged = 1, kFinished = 2;

// ---- Words that other blocks read and write

__device__ __forceinline__ float load_words(const float* from) {
    float x;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
    return x;
}
__device__ __forceinline__ void store_words(float* to, float x) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
__device__ __forceinline__ float2 load_words(const float2* from) {
    float2 x;
    asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(from) : "memory");
    return x;
}
__device__ __forceinline__ void store_words(float2* to, float2 x) {
    asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x.x), "f"(x.y) : "memory");
}
__device__ __forceinline__ float4 load_words(const float4* from) {
    float4 x;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "l"(from)
                 : "memory");
    return x;
}
__device__ __forceinline__ void store_words(float4* to, float4 x) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x.x), "f"(x.y), "f"(x.z),
                 "f"(x.w)
                 : "memory");
}
__device__ __forceinline__ bool is_empty(float word) { return bits_of(word) == kEmpty; }
__device__ __forceinline__ bool is_empty(float2 words) { return is_empty(words.x); }

// The sums of a segment.
template <class T>
struct alignas(128) Slot {
    float sums[T::kRows][T::kDim];
    float2 shares[T::kRows][kSumLanes]; // what the tiles add to the running sums

    static constexpr int kWords = T::kRows * (T::kDim + 2 * kSumLanes);
    // All words; each thread of the block stores some.
    __device__ __forceinline__ void fill(float with, int thread, int threads) {
        for (int i = thread; i < kWords / 4; i += threads)
            store_words(reinterpret_cast<float4*>(this) + i, {with, with, with, with});
    }
};

// All threads of the unit's blocks wait for one another. `all`: the arrivals that the counter has by then.
__device__ __forceinline__ void sync_unit(unsigned* counter, unsigned all) {
    __syncthreads();
    if (threadIdx.x == 0) {
        add_release(counter, 1);
        while (load_acquire(counter) < all) __nanosleep(50);
    }
    __syncthreads();
}

// Derives the references of a row of a unit in all its tiles, from the first tile's reference and the tiles' largest
// scores. One warp calls it.
template <class T>
__device__ void derive_references(const Args& args, const Stripe& stripe, int row, Reference reference) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    float end_M = reference.M, end_origin = reference.origin; // at the end of the segment before
    for (int tile = 0; tile < stripe.segments * kTiles; tile += kWarpSize) {
        const int mine = tile + lane;
        float4* const place = args.stripes.references_of(stripe, mine / kTiles, row, T::kRows) + mine % kTiles;
        const float largest = place->x; // stored by the warp that computed the segment
        Reference own = reference;
        float raised = 1.0f;
        each_raise(reference, largest, args.scale, [&](int at, const Reference& to) {
            if (lane == at) raised = rescale_factor(reference, to, args.scale);
            if (lane >= at) own = to;
        });
        float before_M = __shfl_up_sync(kAllLanes, own.M, kTiles);
        float before_origin = __shfl_up_sync(kAllLanes, own.origin, kTiles);
        if (lane < kTiles) before_M = end_M, before_origin = end_origin;
        float rescale = 1.0f;
        if (before_M != own.M || before_origin != own.origin)
            rescale =
                rescale_factor(reference_of(RowStatistics{before_M, before_origin, 0.0f}, args.scale), own, args.scale);
        *place = {own.M, own.origin, raised, rescale};
        end_M = __shfl_sync(kAllLanes, own.M, kWarpSize - 1);
        end_origin = __shfl_sync(kAllLanes, own.origin, kWarpSize - 1);
    }
}

// What a warp folds of a unit. Columns: chunks of 32 columns of a row, one number for each lane and segment. Running
// sums: chunks of 32 of them, two numbers for each lane and segment.
template <class T>
struct Columns {
    using Words = float;
    static constexpr int kCount = T::kRows * T::kDim;
    static __device__ __forceinline__ int row_of(int place) { return place / T::kDim; }
    static __device__ __forceinline__ Words* in(Slot<T>& slot) { return slot.sums[0]; }
    static __device__ __forceinline__ float& total(typename T::State& state, int place) {
        return state.totals[0][place];
    }
    static __device__ __forceinline__ void add(float& sum, float word, const float4&, const float4& second) {
        sum = fused(sum, second.w, word);
    }
    static __device__ __forceinline__ void add(float& sum, float word) { sum += word; }
};

template <class T>
struct RunningSums {
    using Words = float2;
    static constexpr int kCount = T::kSums;
    static __device__ __forceinline__ int row_of(int place) { return place / kSumLanes; }
    static __device__ __forceinline__ Words* in(Slot<T>& slot) { return slot.shares[0]; }
    static __device__ __forceinline__ float& total(typename T::State& state, int place) {
        return state.running[0][place];
    }
    static __device__ __forceinline__ void add(float& sum, float2 words, const float4& first, const float4& second) {
        sum = (sum * first.z + words.x) * second.z + words.y;
    }
    static __device__ __forceinline__ void add(float& sum, float2 words) { sum = (sum + words.x) + words.y; }
};

// A warp that folds chunks of one kind: number `worker` of `workers`. It loads batches of segments, 16 bytes for each
// lane, to registers; when they are complete, it puts them into shared memory, where a lane finds its own numbers.
template <class T, class Kind>
class Folder {
    using Words = typename Kind::Words;

public:
    static constexpr int kChunks = (Kind::kCount + kWarpSize - 1) / kWarpSize;

    __device__ __forceinline__ Folder(const Args& args, typename T::State& state, void* memory, int worker, int workers)
        : args_(args), state_(state), batch_(static_cast<Words*>(memory)), worker_(worker), workers_(workers),
          chunks_(max(kChunks - worker + workers - 1, 0) / workers), segments_(state.stripe.segments),
          slots_(static_cast<Slot<T>*>(args.stripes.slots) + int64_t{state.stripe.unit} * args.stripes.slots_of_unit) {}

    // Batch by batch, and in each the chunks one after the other. While one is folded, the next is loaded. Totals are 0
    // at first.
    __device__ __forceinline__ void fold(bool again) {
        if (again)
            for (int i = 0; i < chunks_; ++i)
                if (has_place(i)) total(i) = 0.0f;
        float4 words[kLoads];
        Place now{}, next = after(now);
        while (!are_there(first_words(now))) __nanosleep(200);
        load(words, now);
        Words firsts = first_words(next);
        for (;;) {
            take(words, now);
            const bool goes_on = next.segment < segments_;
            const bool is_next_there = goes_on && are_there(firsts);
            if (is_next_there) load(words, next);
            const Place later = after(next);
            firsts = first_words(later);
            add(now, again);
            if (!goes_on) return;
            if (!is_next_there) {
                while (!are_there(first_words(next))) __nanosleep(200);
                load(words, next);
            }
            now = next;
            next = later;
        }
    }

    // Calls end(place, total) for the lane's totals.
    template <class F>
    __device__ __forceinline__ void each_total(const F& end) const {
        for (int i = 0; i < chunks_; ++i) end(place_of(i), has_place(i) ? total(i) : 0.0f);
    }

private:
    static constexpr int kPieces = kWarpSize * static_cast<int>(sizeof(Words)) / 16; // of 16 bytes, of a chunk
    static constexpr int kTogether = kWarpSize / kPieces; // segments that a warp loads at once
    static constexpr int kLoads = 8;
    static constexpr int kBatch = kLoads * kTogether;
    static constexpr int kStep = kTogether * static_cast<int>(sizeof(Slot<T>)) / 16; // from load to load
    static_assert(kFoldBatch % kBatch == 0 && kLoads * kWarpSize * 16 == kFoldBytes);

    // A batch of a chunk, from a segment on.
    struct Place {
        int segment, chunk;
    };
    __device__ __forceinline__ Place after(Place place) const {
        if (++place.chunk < chunks_) return place;
        place.chunk = 0;
        place.segment += kBatch;
        return place;
    }

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
    __device__ __forceinline__ int place_of(int chunk) const {
        return (worker_ + chunk * workers_) * kWarpSize + lane();
    }
    __device__ __forceinline__ bool has_place(int chunk) const { return place_of(chunk) < Kind::kCount; }
    __device__ __forceinline__ float& total(int chunk) const { return Kind::total(state_, place_of(chunk)); }

    // The first words of a batch: a lane has that of a segment's chunk. If they are there, others may still be empty.
    __device__ __forceinline__ Words first_words(const Place& place) const {
        const int segment = min(place.segment + lane() % kBatch, segments_ - 1);
        return load_words(Kind::in(slots_[segment]) + (worker_ + place.chunk * workers_) * kWarpSize);
    }
    static __device__ __forceinline__ bool are_there(const Words& firsts) {
        return __all_sync(kAllLanes, !is_empty(firsts));
    }

    __device__ __forceinline__ void load(float4 (&words)[kLoads], const Place& place) const {
        int first = (worker_ + place.chunk * workers_) * kWarpSize + lane() % kPieces * (kWarpSize / kPieces);
        if (Kind::kCount % kWarpSize != 0) first %= Kind::kCount; // a lane without a running sum loads another one
        const float4* at = reinterpret_cast<float4*>(Kind::in(slots_[place.segment + lane() / kPieces]) + first);
        asm volatile("" : "+l"(at)); // one address for all
#pragma unroll
        for (int i = 0; i < kLoads; ++i) words[i] = load_words(at + i * kStep);
    }

    // Waits until no word is empty, and puts them into shared memory.
    __device__ __forceinline__ void take(float4 (&words)[kLoads], const Place& place) const {
        for (;;) {
            uint32_t largest = 0;
#pragma unroll
            for (int i = 0; i < kLoads; ++i)
                largest = max(largest, max(max(bits_of(words[i].x), bits_of(words[i].y)),
                                           max(bits_of(words[i].z), bits_of(words[i].w))));
            if (__all_sync(kAllLanes, largest != kEmpty)) break;
            load(words, place);
        }
        __syncwarp(); // all lanes are done with the batch before
#pragma unroll
        for (int i = 0; i < kLoads; ++i) reinterpret_cast<float4*>(batch_)[i * kWarpSize + lane()] = words[i];
        __syncwarp();
    }

    __device__ __forceinline__ void add(const Place& place, bool again) const {
        if (!has_place(place.chunk)) return;
        float sum = total(place.chunk);
        if (again) {
            const int row = Kind::row_of(place_of(place.chunk));
            const float4* of = args_.stripes.references_of(state_.stripe, place.segment, row, T::kRows);
#pragma unroll 4
            for (int j = 0; j < kBatch; ++j, of += T::kRows * kTiles)
                Kind::add(sum, batch_[j * kWarpSize + lane()], __ldcg(of), __ldcg(of + 1));
        } else {
#pragma unroll
            for (int j = 0; j < kBatch; ++j) Kind::add(sum, batch_[j * kWarpSize + lane()]);
        }
        total(place.chunk) = sum;
    }

    const Args& args_;
    typename T::State& state_;
    Words* const batch_; // [segment][lane]
    const int worker_, workers_;
    const int chunks_;
    const int segments_;
    Slot<T>* const slots_;
};

// Whether the unit has to be computed again. A warp calls it after it has read sums of all segments: a higher score is
// noted before the sums of its segment are stored.
__device__ __forceinline__ bool has_changed(unsigned* counters) {
    __threadfence();
    const bool changed = load_relaxed(counters + kChanged) != 0;
    __syncwarp();
    if (threadIdx.x % kWarpSize == 0) store_release(counters + kFinished, 1);
    return __any_sync(kAllLanes, changed);
}

// How many warps of a unit can have a chunk.
template <class T>
constexpr int kFolders = Folder<T, RunningSums<T>>::kChunks + Folder<T, Columns<T>>::kChunks;

// Folds the chunks of warp `worker` of `workers`, which is below kFolders, and stores what follows from them. Returns
// whether the unit has to be computed again.
template <class T>
__device__ __forceinline__ bool fold_chunks(const Args& args, const Unit& unit, typename T::State& state, void* memory,
                                            int worker, int workers, bool again) {
    unsigned* const counters = args.stripes.counters + state.stripe.unit * kCounters;
    float* const inverse = args.stripes.inverse + int64_t{state.stripe.unit} * T::kRows;
    constexpr int kRunning = Folder<T, RunningSums<T>>::kChunks;
    if (worker < kRunning) {
        Folder<T, RunningSums<T>> folder(args, state, memory, worker, kRunning);
        folder.fold(again);
        if (!again && has_changed(counters)) return true;
        wait_for_count(state.settled, 0); // this block's warp 0 has set the rows' references
        folder.each_total([&](int place, float l) {
            for (int distance = 1; distance < kSumLanes; distance *= 2) l += __shfl_xor_sync(kAllLanes, l, distance);
            if (place % kSumLanes != 0 || place >= T::kSums) return;
            const int row = RunningSums<T>::row_of(place);
            store_words(inverse + row, l > 0 ? 1.0f / l : 0.0f);
            const RowPlace at = place_of(args, unit, row, T::kRows);
            if (!at.exists) return;
            const Reference& first = state.rows[row].reference;
            RowStatistics statistics{first.M, first.origin, l};
            if (again) {
                const float4 last = __ldcg(
                    args.stripes.references_of(state.stripe, state.stripe.segments - 1, row, T::kRows) + kTiles - 1);
                statistics = {last.x, last.y, l};
            }
            store_statistics(args, at, statistics);
        });
    } else {
        Folder<T, Columns<T>> folder(args, state, memory, worker - kRunning, workers - kRunning);
        folder.fold(again);
        if (!again && has_changed(counters)) return true;
        folder.each_total([&](int place, float sum) {
            const int row = Columns<T>::row_of(place);
            const int column = place % T::kDim;
            const RowPlace at = place_of(args, unit, row, T::kRows);
            if (!at.exists || column >= args.dim) return;
            float by;
            do by = load_words(inverse + row);
            while (is_empty(by));
            using E = typename T::E;
            E* const out = const_cast<E*>(args.out.template of<E>(at.batch, at.head));
            narrow_to(out[at.query * args.out.row + column], result(sum, by));
        });
    }
    return false;
}

} // namespace hw4::gpu::split
