// The arguments of the kernels of split_keys, the layout of their scratch memory, and the part of the work that a block
// takes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>

#include "src/contracts/f32/backward.h"
#include "src/gpu/common/handover.cuh"
#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/common/warp.cuh"
#include "src/gpu/f32/forward/split_work.h"
#include "src/gpu/launch.h"

namespace hw4::gpu::split {

constexpr int kTiles = kSegmentKeys / kKeyTile;
static_assert(kTiles == 2);

// The facts of a segment of a row besides its sums o.
struct alignas(16) SegmentFactors {
    float shares[kSumLanes][kTiles]; // added to the eight running sums for each tile
    float raised[kTiles];            // factors of the running sums before that
    float largest[kTiles];           // the tiles' largest scores
    float rescale;                   // factor of the totals before o is added
    float unused[3];
};
static_assert(offsetof(SegmentFactors, raised) % 16 == 0 && offsetof(SegmentFactors, rescale) % 16 == 0);

// The state of a row from segment to segment, besides its totals.
struct RowState {
    float lanes[kSumLanes];
    float M, origin;
    float first_M, first_origin; // the reference that the unit's first tile gives
};
static_assert(sizeof(RowState) % 16 == 0);

// Scratch memory. For a unit that goes on in the next block: totals and states, [block][row]. For a unit that began in
// an earlier block: sums and factors for each segment, [segment of the line][row], and states at the end, [block][row].
// The flags, [block], tell whether a reference changed although later blocks assume that it did not.
struct Scratch {
    float* totals;
    RowState* states;
    RowState* last_states;
    float* sums;
    SegmentFactors* factors;
    int* changed_in_first; // for the share's last unit, which began in it
    int* changed_in_later; // for its first unit, which began earlier
    unsigned* handed_over; // 1: totals and states of the share's last unit are stored. 0 before the launch
};

// In each block of a striped unit kFoldWarps warps fold kFoldBatch segments at a time, each in its own kFoldBytes of
// shared memory. A unit has kCounters counters.
constexpr int kFoldWarps = 2, kFoldBatch = 32, kFoldBytes = 4096, kCounters = 3;

// A block's part of a striped unit: it is number `rank` of the unit's blocks. The unit has `count` segments; `segments`
// are whole batches of kFoldBatch, and those after `count` add 0.
struct Stripe {
    int unit, rank, blocks;
    int segments, count;
};

// The memory of striped units (split_striped_fold.cuh).
struct Stripes {
    int blocks_of_unit;
    int slots_of_unit;
    void* slots;        // [unit][segment]
    float4* references; // [unit][segment][row][tile]: M, origin, the tile's factor, the segment's factor
    float* inverse;     // [unit][row], of l
    unsigned* counters; // [unit][kCounters], 0 before the launch

    __device__ __forceinline__ float4* references_of(const Stripe& stripe, int segment, int row, int rows) const {
        return references + ((int64_t{stripe.unit} * slots_of_unit + segment) * rows + row) * kTiles;
    }
};

struct Operand {
    const void* at;
    int64_t batch, head, row; // elements

    template <class E>
    __device__ __forceinline__ const E* of(int64_t in_batch, int64_t in_head) const {
        return static_cast<const E*>(at) + in_batch * batch + in_head * head;
    }
};

struct Args {
    Operand q, k, v, out;
    int64_t k_step, v_step; // bytes from the rows of K and of V that a warp copies together to the next ones
    const int32_t* lengths; // of each batch; null: all have `keys`
    PageTable pages;        // if k and v are in pages
    int page_shift;         // the logarithm of a page's keys
    RowStatistics* statistics;
    int64_t statistics_unit;
    int64_t first_query; // statistics and the mask count from the first query of all
    int64_t all_queries;
    int64_t keys; // of every batch, at most
    int batches, kv_heads, group, queries, dim;
    int row_blocks; // units per head of K and V
    bool by_units;  // each block has a unit
    bool causal;
    int window; // or kNoWindow
    Scale scale;
    Scratch scratch;
    Stripes stripes;

    HW4_INLINE int64_t keys_of(int64_t batch) const {
        if (lengths == nullptr) return keys;
        const int64_t length = lengths[batch];
        return length < 0 ? 0 : length > keys ? keys : length;
    }
    // The first key that a query sees.
    HW4_INLINE int first_key_of(int64_t batch) const {
        const int64_t first = keys_of(batch) - all_queries + 1 + first_query - window;
        return first > 0 ? static_cast<int>(first) : 0;
    }
    // At least one, so that each unit has a block that writes its output.
    HW4_INLINE int segments_of_batch(int64_t batch) const {
        const auto count = static_cast<int>(segments_of(keys_of(batch))) - first_key_of(batch) / kSegmentKeys;
        return count > 0 ? count : 1;
    }
    HW4_INLINE int units_of_batch() const { return kv_heads * row_blocks; }
};

// A unit, and where its segments begin in the line of all segments.
struct Unit {
    int batch;
    int in_batch;
    int64_t first; // segment
    int count;     // of segments
};

// The sum over the previous threads; `all` becomes the sum over all threads.
__device__ __forceinline__ int64_t sum_before(int64_t mine, int64_t& all) {
    __shared__ int64_t of_warp[kWarpSize];
    int64_t sum = mine;
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
        const int64_t below = __shfl_up_sync(kAllLanes, sum, distance);
        if (static_cast<int>(threadIdx.x) % kWarpSize >= distance) sum += below;
    }
    if (threadIdx.x % kWarpSize == kWarpSize - 1) of_warp[threadIdx.x / kWarpSize] = sum;
    __syncthreads();
    all = 0;
    int64_t before = sum - mine;
    for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarpSize; ++warp) {
        if (warp < static_cast<int>(threadIdx.x) / kWarpSize) before += of_warp[warp];
        all += of_warp[warp];
    }
    __syncthreads();
    return before;
}

// A block's share, and how it is computed.
struct Share {
    Shares all;
    int64_t first, end; // segments
    Unit first_unit;    // the unit of the segment `first`
    Unit end_unit;      // the unit of the segment `end`, if there is one
    // No unit has segments in three blocks. A block passes the totals of its last unit on to the next block, which has
    // the rest. It computes the unit that it passes on first, and the unit that it receives last. So a block only waits
    // for what the previous block computes first, and that block has started: GPUs start blocks in order.
    bool hands_over;
};

// All threads of the block call it.
__device__ __forceinline__ Share find_share(const Args& args, int64_t block, int64_t blocks) {
    const int64_t units = args.units_of_batch();
    Share share{};
    if (args.by_units) {
        const auto batch = static_cast<int>(block / units);
        const int count = args.segments_of_batch(batch);
        share.all = {count, 1};
        share.end = count;
        share.first_unit = {batch, static_cast<int>(block % units), 0, count};
        share.hands_over = true;
        return share;
    }
    if (args.lengths == nullptr) {
        const int each = args.segments_of_batch(0);
        share.all = {args.batches * units * each, blocks};
        const auto unit_of = [&](int64_t segment) {
            const int64_t index = segment / each;
            return Unit{static_cast<int>(index / units), static_cast<int>(index % units), index * each, each};
        };
        share.first = share.all.first(block);
        share.end = share.all.first(block + 1);
        share.first_unit = unit_of(share.first);
        share.end_unit = unit_of(share.end);
        share.hands_over = share.all.are_larger_than(each);
        return share;
    }
    __shared__ Unit found[2];
    const auto threads = static_cast<int>(blockDim.x);
    const int own = (args.batches + threads - 1) / threads;
    const int begin = min(static_cast<int>(threadIdx.x) * own, args.batches);
    const int end = min(begin + own, args.batches);
    int64_t mine = 0;
    int most = 0;
    for (int batch = begin; batch < end; ++batch) {
        const int each = args.segments_of_batch(batch);
        mine += units * each;
        most = max(most, each);
    }
    int64_t all = 0;
    int64_t before = sum_before(mine, all);
    share.all = {all, blocks};
    share.first = share.all.first(block);
    share.end = share.all.first(block + 1);
    for (int batch = begin; batch < end; ++batch) {
        const int each = args.segments_of_batch(batch);
        for (int i = 0; i < 2; ++i) {
            const int64_t segment = i == 0 ? share.first : share.end;
            if (segment < before || segment >= before + units * each) continue;
            const auto in_batch = static_cast<int>((segment - before) / each);
            found[i] = {batch, in_batch, before + int64_t{in_batch} * each, each};
        }
        before += units * each;
    }
    share.hands_over = __syncthreads_or(!share.all.are_larger_than(most)) == 0;
    share.first_unit = found[0];
    share.end_unit = found[1];
    return share;
}

// All shares, and the unit with this index as the first unit; not a block's share. All threads of the block call it.
__device__ __forceinline__ Share share_of_unit(const Args& args, int64_t index, int64_t blocks) {
    const auto units = static_cast<int>(args.units_of_batch());
    const auto batch = static_cast<int>(index / units);
    const int count = args.segments_of_batch(batch);
    int64_t all = int64_t{args.batches} * units * count;
    int64_t before = int64_t{batch} * units * count;
    int most = count;
    if (args.lengths != nullptr) {
        __shared__ unsigned long long sums[2]; // over all batches, and over earlier batches
        if (threadIdx.x < 2) sums[threadIdx.x] = 0;
        __syncthreads();
        for (int other = static_cast<int>(threadIdx.x); other < args.batches; other += static_cast<int>(blockDim.x)) {
            const int each = args.segments_of_batch(other);
            most = max(most, each);
            atomicAdd(&sums[0], static_cast<unsigned long long>(each) * units);
            if (other < batch) atomicAdd(&sums[1], static_cast<unsigned long long>(each) * units);
        }
        __syncthreads();
        all = static_cast<int64_t>(sums[0]);
        before = static_cast<int64_t>(sums[1]);
    }
    Share share{};
    share.all = {all, blocks};
    share.hands_over = __syncthreads_or(!share.all.are_larger_than(most)) == 0;
    const auto in_batch = static_cast<int>(index % units);
    share.first_unit = {batch, in_batch, before + int64_t{in_batch} * count, count};
    return share;
}

// Whether a reference changed in the blocks after `first_block`, up to and without `end`, while they computed the
// segments of one unit. All threads of the block call it.
__device__ __forceinline__ bool has_changed_later(const Args& args, const Shares& shares, int64_t first_block,
                                                  int64_t end) {
    bool changed = false;
    for (int64_t block = first_block + 1 + threadIdx.x; block < end; block += blockDim.x)
        changed =
            changed || (shares.first(block) < shares.first(block + 1) && args.scratch.changed_in_later[block] != 0);
    return __syncthreads_or(changed) != 0;
}

__device__ __forceinline__ Unit unit_after(const Args& args, const Unit& unit) {
    Unit next = unit;
    next.first += unit.count;
    if (++next.in_batch == args.units_of_batch()) {
        next.in_batch = 0;
        if (++next.batch < args.batches) next.count = args.segments_of_batch(next.batch);
    }
    return next;
}

// A query row of a unit.
struct RowPlace {
    int batch, head, query; // the query counts from the launch's first
    int seen;               // keys
    bool exists;
};

__device__ __forceinline__ RowPlace place_of(const Args& args, const Unit& unit, int row, int rows) {
    const int in_head = unit.in_batch % args.row_blocks * rows + row;
    RowPlace place{};
    place.batch = unit.batch;
    place.exists = in_head < args.group * args.queries;
    if (!place.exists) return place;
    place.head = unit.in_batch / args.row_blocks * args.group + in_head / args.queries;
    place.query = in_head % args.queries;
    const int64_t keys = args.keys_of(unit.batch);
    const int64_t seen = args.causal ? keys - args.all_queries + 1 + args.first_query + place.query : keys;
    place.seen = seen > 0 ? static_cast<int>(seen) : 0;
    return place;
}

__device__ __forceinline__ void store_statistics(const Args& args, const RowPlace& place, const RowStatistics& row) {
    if (args.statistics == nullptr) return;
    const int64_t unit = int64_t{place.batch} * args.kv_heads * args.group + place.head;
    args.statistics[unit * args.statistics_unit + args.first_query + place.query] = row.l > 0 ? row : RowStatistics{};
}

// ---- Elements

using Bf16 = __nv_bfloat16;
using Fp16 = __half;

__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(Bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widened(Fp16 x) { return __half2float(x); }
__device__ __forceinline__ void narrow_to(float& to, float x) { to = x; }
__device__ __forceinline__ void narrow_to(Bf16& to, float x) { to = __float2bfloat16_rn(x); }
__device__ __forceinline__ void narrow_to(Fp16& to, float x) { to = __float2half_rn(x); }

// Two adjacent elements, the first in the lower half. A bf16 is the upper half of a float.
__device__ __forceinline__ float2 widened_pair(uint32_t pair, Bf16) {
    return {float_of(pair << 16), float_of(pair & 0xffff0000u)};
}
__device__ __forceinline__ float2 widened_pair(uint32_t pair, Fp16) {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

// kN adjacent elements from shared memory: one, or 4 to 16 bytes.
template <int kN, class E>
__device__ __forceinline__ void load_elements(float (&to)[kN], const E* from) {
    if constexpr (kN == 1) {
        to[0] = widened(*from);
    } else {
        constexpr int kWords = kN * static_cast<int>(sizeof(E)) / 4;
        struct alignas(4 * kWords) Piece {
            uint32_t words[kWords];
        };
        const Piece piece = *reinterpret_cast<const Piece*>(from);
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            if constexpr (sizeof(E) == 4) {
                to[i] = float_of(piece.words[i]);
            } else {
                const float2 pair = widened_pair(piece.words[i], E());
                to[2 * i] = pair.x;
                to[2 * i + 1] = pair.y;
            }
        }
    }
}

} // namespace hw4::gpu::split
