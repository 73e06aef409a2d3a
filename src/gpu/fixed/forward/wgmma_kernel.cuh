// Attention under the contract `fixed` on Hopper's integer tensor cores. A block has some groups of 128 threads, each
// with 64 query rows, and goes through its share of the work (shares.h), part after part: in each all groups go
// through a unit's tiles of keys (tile_ring.cuh).
//
// Several groups on a multiprocessor, in one block or in several: while one waits for the tensor cores, the others make
// weights. Both at once is more than the sum of halves, but not twice: a multiprocessor whose tensor cores are busy has
// issue slots for only part of the other arithmetic, the less, the shorter the products' instructions are.
#pragma once

#include <algorithm>

#include "src/gpu/common/early_launch.cuh"
#include "src/gpu/common/handing_on.cuh"
#include "src/gpu/common/shares.h"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/group.cuh"
#include "src/gpu/fixed/forward/prepare.h"
#include "src/gpu/fixed/forward/tile_ring.cuh"
#include "src/gpu/fixed/forward/wgmma.cuh"

namespace hw4::gpu::fixed_point {

template <int kDim_, int kGroups_, int kStages_, int kBlocks_, bool kMasked_ = false>
struct Variant {
    static constexpr int kDim = kDim_;
    static constexpr int kGroups = kGroups_; // of a block
    static constexpr int kStages = kStages_;
    static constexpr int kBlocks = kBlocks_; // of a multiprocessor
    static constexpr int kThreads = kGroups * kGroupThreads;
    // A tile is fetched so many before its turn; the slowest group may be the other stages behind.
    static constexpr unsigned kAhead = kStages > 4 ? kStages / 2 : kStages > 3 ? 2 : kStages - 1;
    static constexpr bool kJoint = kGroups > 1;
    static constexpr bool kMasked = kMasked_;
    using Masked = Variant<kDim, kGroups, kStages, kBlocks, true>; // code of its own: it takes registers
};

// Head size, groups of a block, stages, blocks of a multiprocessor. A group alone has so many stages that no two blocks
// fit; groups apart are a block each; joint ones share a block and its tiles.
using Alone32 = Variant<32, 1, 9, 1>;
using Alone64 = Variant<64, 1, 5, 1>;
using Alone128 = Variant<128, 1, 3, 1>;
using Apart32 = Variant<32, 1, 2, 4>;
using Apart64 = Variant<64, 1, 2, 3>;
using Joint32 = Variant<32, 4, 8, 1>;
using Joint64 = Variant<64, 3, 6, 1>;
using Joint128 = Variant<128, 2, 3, 1>;

template <class T>
using RowDescriptor = PlaneDescriptor<T::kDim>;   // of Q and K
using KeyDescriptor = PlaneDescriptor<kTileKeys>; // of V

template <class T>
__device__ __forceinline__ void multiply_queries(ScoreLevels& s, RowDescriptor<T> q, RowDescriptor<T> k) {
    using P = LevelProducts<kTileKeys>;
    constexpr uint32_t kPlane = TileLayout<T::kDim>::kPlane;
    P::template high<true>(s.l, q.plus(2 * kPlane), k);
    P::middle(s.l, q.plus(kPlane), k.plus(kPlane));
    P::low(s.l, q, k.plus(2 * kPlane));
#pragma unroll
    for (uint32_t at = kStepBytes; at < T::kDim; at += kStepBytes) {
        P::template high<false>(s.l, q.plus(2 * kPlane + at), k.plus(at));
        P::middle(s.l, q.plus(kPlane + at), k.plus(kPlane + at));
        P::low(s.l, q.plus(at), k.plus(2 * kPlane + at));
    }
}

template <class T>
__device__ __forceinline__ void multiply_weights(Levels<TileLayout<T::kDim>::kColumns / 2>& y, const WeightPlanes& p,
                                                 KeyDescriptor v) {
    using P = LevelProducts<TileLayout<T::kDim>::kColumns>;
    constexpr uint32_t kPlane = TileLayout<T::kDim>::kPartPlane;
    P::template high<true>(y.l, p.half[0][2], v);
    P::middle(y.l, p.half[0][1], v.plus(kPlane));
    P::low(y.l, p.half[0][0], v.plus(2 * kPlane));
    P::template high<false>(y.l, p.half[1][2], v.plus(kStepBytes));
    P::middle(y.l, p.half[1][1], v.plus(kPlane + kStepBytes));
    P::low(y.l, p.half[1][0], v.plus(2 * kPlane + kStepBytes));
}

// All words are there before the first product begins.
__device__ __forceinline__ void pin_words(uint32_t (&words)[kDigits][4]) {
#pragma unroll
    for (int place = 0; place < kDigits; ++place)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(words[place][i])::"memory");
}

// The products of one group, on the tensor cores, with the tile whose turn it is.
template <class T>
struct WgmmaProducts {
    using Layout = TileLayout<T::kDim>;
    static constexpr bool kMaySteady = T::kJoint; // mostly with long sequences
    static constexpr bool kMasked = T::kMasked;
    static __device__ constexpr int seen_more(const ForwardArgs&) { return T::kMasked ? 1 : 0; }
    TileRing<T> ring;
    TileFetcher<T> fetcher;
    uint32_t warp; // of the block; the first one has tiles fetched
    RowDescriptor<T> q;
    RowDescriptor<T> k; // of the first stage
    KeyDescriptor v;

    __device__ WgmmaProducts(BlockMemory<T>& memory, const unsigned char* tiles, int group)
        : ring(memory), fetcher(memory, tiles), warp(uniform(threadIdx.x / 32)),
          q(RowDescriptor<T>::at(memory.queries[group].planes)),
          k(RowDescriptor<T>::at(memory.tiles[0])), v{k.low + (Layout::kValues >> 4)} {}

    __device__ __forceinline__ TileScales scales(unsigned) const { return ring.scales(); }

    // The scores of a tile begin; whatever does not need them may come before end_scores().
    __device__ __forceinline__ void begin_scores(unsigned, ScoreLevels& s) {
        ring.wait();
        begin_products();
        multiply_queries<T>(s, q, k.plus(ring.stage_offset()));
        commit_products();
        if (warp == 0) fetcher.refill(ring.turn());
    }

    __device__ __forceinline__ void end_scores(unsigned, ScoreLevels& s) const {
        wait_for_products<0>();
        pin(s.l);
    }

    __device__ __forceinline__ void begin_values(unsigned, int part, WeightPlanes& planes,
                                                 Levels<Layout::kColumns / 2>& y) const {
        pin_words(planes.half[0]);
        pin_words(planes.half[1]);
        begin_products();
        multiply_weights<T>(y, planes, v.plus(ring.stage_offset() + static_cast<uint32_t>(part * Layout::kPart)));
        commit_products();
    }

    __device__ __forceinline__ void end_values(unsigned, int part, Levels<Layout::kColumns / 2>& y) const {
        wait_for_products<0>();
        pin(y.l);
        if (part == Layout::kParts - 1) ring.release();
    }

    __device__ __forceinline__ void leave() { ring.advance(); }

    // Some tiles that only other groups need.
    __device__ void skip(unsigned tiles) {
        for (; tiles > 0; --tiles) {
            ring.wait();
            if (T::kMasked && warp == 0) fetcher.refill(ring.turn()); // which without a mask never skips
            ring.release();
            ring.advance();
        }
    }
};

// What a block does: its share, in terms of the problem.
template <class T>
struct BlockWork {
    const ForwardArgs& args;
    const JobTiles& job_tiles;
    Share share;

    __device__ JobPart part(uint32_t i) const { return share.part(i, job_tiles); }

    // None where there is no such part.
    __device__ TileRun tiles(uint32_t i) const {
        if (i >= share.parts) return {0, 0};
        const JobPart of = part(i);
        const auto all = static_cast<uint32_t>(tiles_of(args.keys));
        return {args.kv_unit(job_tiles.jobs.quotient(of.job)) * all + of.first, of.end - of.first};
    }

    __device__ GroupRows rows(const JobPart& part, int group) const {
        const uint32_t unit = job_tiles.jobs.quotient(part.job);
        const uint32_t before = part.job - unit * job_tiles.jobs.number();
        const int64_t missing = T::kMasked ? missing_groups(args.queries, T::kGroups) : 0;
        return GroupRows::of(args, unit, int64_t{before} * T::kGroups + group - missing);
    }
};

// Running sums from one block to another, which goes on with them: a place for each share and group.
template <class T>
using Handover =
    HandingOn<Running<TileLayout<T::kDim>::kParts, TileLayout<T::kDim>::kColumns / 2>::kNumbers, kGroupThreads>;

template <class T>
size_t handover_places(int64_t blocks) {
    return static_cast<size_t>(blocks) * T::kGroups;
}

template <class T>
__device__ __forceinline__ size_t handover_place(uint32_t share, int group) {
    return size_t{share} * T::kGroups + static_cast<size_t>(group);
}

// Which share the block takes. It may come to wait for the next share's block, so shares go, from the last to the
// first, to blocks in the order in which they start: whoever is waited for is at work. By one thread, before it waits
// for the pre-pass: the memory was cleared before that.
template <class T>
__device__ __forceinline__ uint32_t take_share(const Handover<T>& handover) {
    const unsigned started = handover.any() ? handover.count() : blockIdx.x;
    return gridDim.x - 1 - started;
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    wgmma_kernel(const __grid_constant__ ForwardArgs args, Prepared prepared, const __grid_constant__ Shares shares,
                 Handover<T> handover) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<BlockMemory<T>*>(block_memory);
    if (address_of(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (threadIdx.x == 0) {
        memory.share = take_share<T>(handover);
        TileFetcher<T>::init(memory);
    }
    __syncthreads();
    wait_for_kernel_before();

    const BlockWork<T> block{args, shares.tiles, shares.share(memory.share)};
    Queries<T::kDim>& queries = memory.queries[group];
    Group<WgmmaProducts<T>> work(WgmmaProducts<T>(memory, prepared.tiles, group));
    work.products.fetcher.start(block.tiles(0));
    const auto sync = [&] { sync_group(group); };
    const unsigned thread = threadIdx.x % kGroupThreads;
    JobPart part = block.part(0);
    GroupRows where = block.rows(part, group);
    ComingQueries<T::kDim> coming;
    coming.fetch(args, prepared, where);
    for (uint32_t i = 0; i < block.share.parts; ++i) {
        if (work.products.warp == 0) work.products.fetcher.announce(block.tiles(i + 1), work.products.ring.turn());
        if (where.rows > 0) {
            sync_group(group); // all of it has done with the rows before
            coming.store(args, queries);
            publish_to_async();
            sync_group(group);
            work.begin(queries);
            if (part.first > 0) // the head of the job, which was the first thing that the next share's block did
                handover.template take<0>(work.running, handover_place<T>(block.share.block + 1, group), 1, thread,
                                          sync);
            // Under a mask the first groups see less than the job has.
            const unsigned end = T::kMasked ? min(part.end, where.end_tile(args)) : part.end;
            work.attend(queries, args, where, part.first, end,
                        outlook_of<WgmmaProducts<T>::kMaySteady>(queries, coming.facts));
            if (T::kMasked) work.products.skip(part.end - max(part.first, min(part.end, where.end_tile(args))));
        } else {
            work.products.skip(part.end - part.first);
        }
        // The next rows are on their way while the results of these are stored. After the last ones those are fetched
        // again, for nobody: if they were not, rows would have to keep their registers up to here.
        const JobPart done = part;
        const GroupRows rows_done = where;
        part = block.part(min(i + 1, block.share.parts - 1));
        where = block.rows(part, group);
        coming.fetch(args, prepared, where);
        if (rows_done.rows == 0) continue;
        if (done.end < block.job_tiles.of(done.job))
            handover.leave(work.running, handover_place<T>(block.share.block, group), 1, thread, sync);
        else
            work.store(queries, args, rows_done);
    }
#else
    __trap();
#endif
}

// The jobs of a launch, each of so many groups.
inline JobTiles job_tiles(const ForwardArgs& args, int groups) {
    const auto tiles = [](int64_t keys) { return std::max<int64_t>(1, tiles_of(keys)); };
    const int64_t jobs = jobs_for(args.queries, groups);
    const auto last = static_cast<unsigned>(tiles(args.sight.of(args.queries - 1)));
    if (args.sight.more == 0) return {Divisor(static_cast<uint32_t>(jobs)), last, static_cast<int>(last), 0};
    // The first job's last row sees so many keys, or would: what is below 1 counts from there.
    const int64_t seen = args.sight.first + (groups - missing_groups(args.queries, groups)) * kGroupRows - 1;
    const int64_t first = seen > 0 ? tiles_of(seen) : -(-seen / kTileKeys);
    return {Divisor(static_cast<uint32_t>(jobs)), last, static_cast<int>(first), groups};
}

// With at most so many blocks. Where those are fewer than the jobs, the scratch memory has room for what is handed over
// after the digits.
template <class T>
void launch_wgmma(const ForwardArgs& args, int64_t most_blocks, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(BlockMemory<T>);
    const auto kernel = wgmma_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const Shares shares = Shares::of(args.units, job_tiles(args, T::kGroups), most_blocks);
    const unsigned blocks = shares.blocks.number();
    const bool hands_over = shares.are_cut();
    const size_t places = handover_places<T>(blocks);
    const Prepared prepared = launch_prepare(args, WgmmaProducts<T>::kMaySteady ? Facts::all : Facts::needed,
                                             hands_over ? Handover<T>::cleared_bytes(places) : 0, stream);
    launch_early("launch of wgmma_kernel", kernel, blocks, T::kThreads, kBytes, stream, args, prepared, shares,
                 hands_over ? Handover<T>(prepared.end, places) : Handover<T>());
}

// Those of wgmma_masked.cu, which take long to compile.
extern template void launch_wgmma<Apart32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Apart64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Joint32::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Joint64::Masked>(const ForwardArgs&, int64_t, cudaStream_t);
extern template void launch_wgmma<Joint128::Masked>(const ForwardArgs&, int64_t, cudaStream_t);

// By the code for the launch's mask.
template <class T>
void launch_wgmma_or_masked(const Launch& launch, int64_t most_blocks, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    if (launch.problem.mask == Mask::none) return launch_wgmma<T>(args, most_blocks, stream);
    return launch_wgmma<typename T::Masked>(args, most_blocks, stream);
}

} // namespace hw4::gpu::fixed_point
