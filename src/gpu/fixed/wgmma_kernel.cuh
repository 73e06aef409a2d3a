// Attention under the contract `fixed` on Hopper's integer tensor cores. A block has some groups of 128 threads, each
// with 64 query rows; all go through the batch's tiles of keys, which a ring of stages in shared memory holds.
//
// Several groups on a multiprocessor, in one block or in several: while one waits for the tensor cores, the others make
// weights. Both at once is more than the sum of halves, but not twice: a multiprocessor whose tensor cores are busy has
// issue slots for only part of the other arithmetic, the less, the shorter the products' instructions are.
#pragma once

#include "../check.h"
#include "group.cuh"
#include "wgmma.cuh"

namespace hw4::gpu::fixed_point {

template <int kDim_, int kGroups_, int kStages_, int kBlocks_>
struct Variant {
    static constexpr int kDim = kDim_;
    static constexpr int kGroups = kGroups_; // of a block
    static constexpr int kStages = kStages_;
    static constexpr int kBlocks = kBlocks_; // of a multiprocessor
    static constexpr int kThreads = kGroups * kGroupThreads;
};

template <class T>
struct BlockMemory {
    alignas(1024) unsigned char tiles[T::kStages][TileLayout<T::kDim>::kBytes];
    Queries<T::kDim> queries[T::kGroups];
    TileScales scales[T::kStages];
    uint64_t filled[T::kStages];
    uint64_t released[T::kStages];  // by all warps
    const unsigned char* all_tiles; // of the batch; here, where they take no registers of threads that do not copy
    const TileScales* all_scales;
};

// The tiles of one batch, one after the other through the stages.
template <class T>
struct TileRing {
    using Layout = TileLayout<T::kDim>;
    static constexpr unsigned kAhead = T::kStages > 3 ? 2 : T::kStages - 1; // a tile is fetched so many before its turn
    BlockMemory<T>& memory;
    unsigned count;

    static __device__ unsigned stage_of(unsigned tile) { return tile % T::kStages; }
    static __device__ int parity_of(unsigned tile) { return static_cast<int>(tile / T::kStages & 1); }

    // By one thread.
    __device__ void start(const unsigned char* tiles, const TileScales* scales) const {
        memory.all_tiles = tiles;
        memory.all_scales = scales;
        for (unsigned stage = 0; stage < T::kStages; ++stage) {
            init_barrier(&memory.filled[stage], 1);
            init_barrier(&memory.released[stage], T::kThreads / 32);
        }
        publish_to_async();
        for (unsigned tile = 0; tile < min(count, static_cast<unsigned>(T::kStages)); ++tile) fetch(tile);
    }

    __device__ void fetch(unsigned tile) const {
        const unsigned stage = stage_of(tile);
        uint64_t* const filled = &memory.filled[stage];
        expect_bytes(filled, Layout::kBytes + static_cast<int>(sizeof(TileScales)));
        copy_bytes(memory.tiles[stage], memory.all_tiles + static_cast<size_t>(tile) * Layout::kBytes, Layout::kBytes,
                   filled);
        copy_bytes(&memory.scales[stage], memory.all_scales + tile, sizeof(TileScales), filled);
    }

    // Before a tile is used. One thread fetches a later one, into the stage of a tile that even the slowest warp will
    // have left long ago.
    __device__ __forceinline__ void wait(unsigned tile) const {
        if (threadIdx.x == 0 && tile + kAhead >= T::kStages && tile + kAhead < count) {
            const unsigned left = tile + kAhead - T::kStages;
            wait_for_phase(&memory.released[stage_of(left)], parity_of(left));
            fetch(tile + kAhead);
        }
        wait_for_phase(&memory.filled[stage_of(tile)], parity_of(tile));
    }

    // By every warp, whose lanes have all read what they need.
    __device__ __forceinline__ void release(unsigned tile) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&memory.released[stage_of(tile)]);
    }
};

template <class T>
__device__ __forceinline__ void multiply_queries(ScoreLevels& s, uint64_t q, uint64_t k) {
    using P = LevelProducts<kTileKeys>;
    constexpr uint64_t kPlane = TileLayout<T::kDim>::kPlane >> 4;
    P::template high<true>(s.l, q + 2 * kPlane, k);
    P::middle(s.l, q + kPlane, k + kPlane);
    P::low(s.l, q, k + 2 * kPlane);
#pragma unroll
    for (int step = 1; step < T::kDim / 32; ++step) {
        P::template high<false>(s.l, next_step(q, step) + 2 * kPlane, next_step(k, step));
        P::middle(s.l, next_step(q, step) + kPlane, next_step(k, step) + kPlane);
        P::low(s.l, next_step(q, step), next_step(k, step) + 2 * kPlane);
    }
}

template <class T>
__device__ __forceinline__ void multiply_weights(Levels<TileLayout<T::kDim>::kColumns / 2>& y, const WeightPlanes& p,
                                                 uint64_t v) {
    using P = LevelProducts<TileLayout<T::kDim>::kColumns>;
    constexpr uint64_t kPlane = TileLayout<T::kDim>::kPartPlane >> 4;
    P::template high<true>(y.l, p.half[0][2], v);
    P::middle(y.l, p.half[0][1], v + kPlane);
    P::low(y.l, p.half[0][0], v + 2 * kPlane);
    P::template high<false>(y.l, p.half[1][2], next_step(v, 1));
    P::middle(y.l, p.half[1][1], next_step(v, 1) + kPlane);
    P::low(y.l, p.half[1][0], next_step(v, 1) + 2 * kPlane);
}

// All words are there before the first product begins.
__device__ __forceinline__ void pin_words(uint32_t (&words)[kDigits][4]) {
#pragma unroll
    for (int place = 0; place < kDigits; ++place)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(words[place][i])::"memory");
}

// The products of one group, on the tensor cores.
template <class T>
struct WgmmaProducts {
    using Layout = TileLayout<T::kDim>;
    TileRing<T> ring;
    uint64_t q; // descriptors; those of the first stage
    uint64_t k;
    uint64_t v;

    __device__ WgmmaProducts(const TileRing<T>& r, int group)
        : ring(r), q(plane_descriptor<T::kDim>(shared_address(r.memory.queries[group].planes))),
          k(plane_descriptor<T::kDim>(shared_address(r.memory.tiles[0]))),
          v(plane_descriptor<kTileKeys>(shared_address(r.memory.tiles[0] + Layout::kValues))) {}

    static __device__ __forceinline__ uint64_t of_stage(uint64_t descriptor, unsigned tile) {
        return descriptor + TileRing<T>::stage_of(tile) * (Layout::kBytes >> 4);
    }

    __device__ __forceinline__ TileScales scales(unsigned tile) const {
        return ring.memory.scales[ring.stage_of(tile)];
    }

    __device__ __forceinline__ void scores(unsigned tile, int32_t (&x)[kScoresEach]) const {
        ScoreLevels s;
        ring.wait(tile);
        begin_products();
        multiply_queries<T>(s, q, of_stage(k, tile));
        commit_products();
        wait_for_products<0>();
        pin(s.l);
#pragma unroll
        for (int i = 0; i < kScoresEach; ++i) x[i] = s.combined(i);
    }

    __device__ __forceinline__ void values(unsigned tile, int part, WeightPlanes& planes,
                                           Levels<Layout::kColumns / 2>& y) const {
        pin_words(planes.half[0]);
        pin_words(planes.half[1]);
        begin_products();
        multiply_weights<T>(y, planes, of_stage(v, tile) + part * (Layout::kPart >> 4));
        commit_products();
        wait_for_products<0>();
        pin(y.l);
        if (part == Layout::kParts - 1) ring.release(tile);
    }
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) wgmma_kernel(KernelArgs args, Prepared prepared) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<BlockMemory<T>*>(block_memory);
    if (shared_address(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    const GroupRows where = GroupRows::of<T::kGroups>(args, blockIdx.x, group);
    const int64_t tiles = tiles_of(args.tokens);
    const TileRing<T> ring{memory, static_cast<unsigned>(tiles)};
    if (threadIdx.x == 0)
        ring.start(prepared.tiles + static_cast<size_t>(where.batch * tiles) * TileLayout<T::kDim>::kBytes,
                   prepared.scales + where.batch * tiles);
    load_queries(memory.queries[group], where.queries(args), args.qkv_stride, where.rows, args.dim, args.scale.c);
    publish_to_async();
    __syncthreads();

    const bool near = scores_are_near(memory.queries[group], prepared.longest_key[where.batch]);
    Group<WgmmaProducts<T>> work(WgmmaProducts<T>(ring, group), memory.queries[group].exponent,
                                 prepared.least_exponent[where.batch]);
    work.attend_all(near ? static_cast<unsigned>(args.tokens / kTileKeys) : 0, ring.count, args.tokens);
    work.store(args, where);
#endif
}

template <class T>
void launch_wgmma(const KernelArgs& args, const Prepared& prepared, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(BlockMemory<T>);
    const auto kernel = wgmma_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int64_t blocks = args.batches * GroupRows::blocks_of_batch<T::kGroups>(args);
    kernel<<<static_cast<unsigned>(blocks), T::kThreads, kBytes, stream>>>(args, prepared);
    HW4_CUDA_LAUNCHED("wgmma_kernel");
}

} // namespace hw4::gpu::fixed_point
