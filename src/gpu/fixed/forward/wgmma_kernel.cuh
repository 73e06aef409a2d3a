// Attention under the contract `fixed` on Hopper's integer tensor cores. A block has some groups of 128 threads, each
// with 64 query rows, and goes through its share of the work (shares.h), piece after piece: in each all groups go
// through a unit's tiles of keys (tile_ring.cuh).
//
// Several groups on a multiprocessor, in one block or in several: while one waits for the tensor cores, the others make
// weights. Both at once is more than the sum of halves, but not twice: a multiprocessor whose tensor cores are busy has
// issue slots for only part of the other arithmetic, the less, the shorter the products' instructions are.
#pragma once

#include <algorithm>

#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/group.cuh"
#include "src/gpu/fixed/forward/handover.cuh"
#include "src/gpu/fixed/forward/launch_early.cuh"
#include "src/gpu/fixed/forward/prepare.h"
#include "src/gpu/fixed/forward/shares.h"
#include "src/gpu/fixed/forward/tile_ring.cuh"
#include "src/gpu/fixed/forward/wgmma.cuh"

namespace hw4::gpu::fixed_point {

template <int kDim_, int kGroups_, int kStages_, int kBlocks_>
struct Variant {
    static constexpr int kDim = kDim_;
    static constexpr int kGroups = kGroups_; // of a block
    static constexpr int kStages = kStages_;
    static constexpr int kBlocks = kBlocks_; // of a multiprocessor
    static constexpr int kThreads = kGroups * kGroupThreads;
    // A tile is fetched so many before its turn; the slowest group may be the other stages behind.
    static constexpr unsigned kAhead = kStages > 4 ? kStages / 2 : kStages > 3 ? 2 : kStages - 1;
    static constexpr bool kJoint = kGroups > 1;
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

    // Some tiles that other groups need: never the first group, which always has rows.
    __device__ void skip(unsigned tiles) {
        for (; tiles > 0; --tiles) {
            ring.wait();
            ring.release();
            ring.advance();
        }
    }
};

// What a block does: its share, in terms of the problem.
template <class T>
struct BlockWork {
    const ForwardArgs& args;
    Share share;
    Divisor units_of_batch;

    // None where there is no such piece.
    __device__ TileRun tiles(uint32_t piece) const {
        if (piece >= share.pieces) return {0, 0};
        const Piece of = share.piece(piece);
        return {args.kv_unit(units_of_batch.quotient(of.unit)) * share.tiles + of.first, of.end - of.first};
    }

    __device__ GroupRows rows(const Piece& piece, int group) const {
        const uint32_t batch = units_of_batch.quotient(piece.unit);
        const uint32_t unit = piece.unit - batch * units_of_batch.number();
        return GroupRows::of(args, batch, int64_t{unit} * T::kGroups + group);
    }
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    wgmma_kernel(const __grid_constant__ ForwardArgs args, Prepared prepared, Shares shares, Divisor units_of_batch,
                 Handover handover) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<BlockMemory<T>*>(block_memory);
    if (shared_address(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (threadIdx.x == 0) {
        memory.share = handover.take_share();
        TileFetcher<T>::init(memory);
    }
    __syncthreads();
    wait_for_kernel_before();

    const BlockWork<T> block{args, shares.share(memory.share), units_of_batch};
    Queries<T::kDim>& queries = memory.queries[group];
    Group<WgmmaProducts<T>> work(WgmmaProducts<T>(memory, prepared.tiles, group));
    work.products.fetcher.start(block.tiles(0));
    Piece piece = block.share.piece(0);
    GroupRows where = block.rows(piece, group);
    ComingQueries<T::kDim> coming;
    coming.fetch(args, prepared, where);
    for (uint32_t i = 0; i < block.share.pieces; ++i) {
        if (work.products.warp == 0) work.products.fetcher.announce(block.tiles(i + 1), work.products.ring.turn());
        if (where.rows > 0) {
            sync_group(group); // all of it has done with the rows before
            coming.store(args, queries);
            publish_to_async();
            sync_group(group);
            work.begin(queries);
            if (piece.first > 0) handover.take<T>(block.share.block + 1, group, work.running);
            work.attend(queries, piece.first, piece.end, args.keys,
                        outlook_of<WgmmaProducts<T>::kMaySteady>(queries, coming.facts));
        } else {
            work.products.skip(piece.end - piece.first);
        }
        // The next rows are on their way while the results of these are stored. After the last ones those are fetched
        // again, for nobody: if they were not, rows would have to keep their registers up to here.
        const Piece done = piece;
        const GroupRows rows_done = where;
        piece = block.share.piece(min(i + 1, block.share.pieces - 1));
        where = block.rows(piece, group);
        coming.fetch(args, prepared, where);
        if (rows_done.rows == 0) continue;
        if (done.end < block.share.tiles)
            handover.give<T>(block.share.block, group, work.running);
        else
            work.store(queries, args, rows_done);
    }
#else
    __trap();
#endif
}

// With at most so many blocks. Where those are fewer than the units of work, the scratch memory has room for
// Handover::bytes<T>(blocks) after the digits.
template <class T>
void launch_wgmma(const ForwardArgs& args, int64_t most_blocks, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(BlockMemory<T>);
    const auto kernel = wgmma_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t units_of_batch = units_for(args.queries, T::kGroups);
    const int64_t units = args.units * units_of_batch;
    const int64_t blocks = std::min(units, most_blocks);
    const bool hands_over = blocks < units;
    const Prepared prepared = launch_prepare(args, WgmmaProducts<T>::kMaySteady ? Facts::all : Facts::needed,
                                             hands_over ? Handover::cleared_bytes<T>(blocks) : 0, stream);
    launch_early("launch of wgmma_kernel", kernel, static_cast<unsigned>(blocks), T::kThreads, kBytes, stream, args,
                 prepared, Shares::of(units, static_cast<unsigned>(tiles_of(args.keys)), blocks),
                 Divisor(static_cast<uint32_t>(units_of_batch)),
                 hands_over ? Handover::at<T>(prepared.end, blocks) : Handover());
}

} // namespace hw4::gpu::fixed_point
