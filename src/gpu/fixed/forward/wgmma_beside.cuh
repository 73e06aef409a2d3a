// The kernel of wgmma_block.cuh, without a mask, for a launch whose heads are prepared beside it (prepass.h): a block
// asks, before it has a head's tiles copied, whether the head is ready, and the multiprocessors that prepare heads come
// to it late (late_shares.h). A kernel of its own, so that the machine code of the others stays as it is: their loops
// are up to 2 % slower or faster with what the compiler finds around them.
#pragma once

#include "src/gpu/fixed/forward/beside_plan.h"
#include "src/gpu/fixed/forward/conditional_queries.cuh"
#include "src/gpu/fixed/forward/wgmma_block.cuh"

namespace hw4::gpu::fixed_point {

// A block's shared memory.
template <class T>
struct BesideMemory : BlockMemory<T> {
    // What is known of heads is kept for so many parts of the block's share. When the first warp is before part i, asks
    // for parts from i + 1 on, and has had a tile of part i fetched, all groups have left the tile that was kStages
    // before that one: each part has one at least, so nobody is before part i - kStages.
    static constexpr unsigned kSlots = 24;
    static constexpr unsigned kAskedAtOnce = kSlots - (T::kStages + 2);
    static_assert(kAskedAtOnce < 32, "a lane for each");

    LateShare late_share;
    uint32_t known_parts;    // whose heads are known to be ready
    HeadFacts facts[kSlots]; // of those parts' heads
};

// What a block does: its share, in terms of the problem. Only references, since registers are few.
template <class T>
struct BesideWork {
    const ForwardArgs& args;
    const Prepared& prepared;
    const ReadyHalves* ready;
    const LateShares& shares;
    BesideMemory<T>& memory;

    __device__ uint32_t parts() const { return memory.late_share.parts; }
    __device__ JobPart part(uint32_t i) const { return shares.part(memory.late_share, i); }

    // None where there is no such part.
    __device__ TileRun tiles(uint32_t i) const {
        if (i >= parts()) return {0, 0};
        const JobPart of = part(i);
        return {head(of) * tiles_of_head() + of.first, of.end - of.first};
    }

    __device__ GroupRows rows(const JobPart& part, int group) const {
        const uint32_t unit = shares.of_unit.quotient(part.job);
        const uint32_t before = part.job - unit * shares.of_unit.number();
        return GroupRows::of(args, unit, int64_t{before} * T::kGroups + group);
    }

    // When the part's first tile is there.
    __device__ const HeadFacts& facts(uint32_t i) const { return memory.facts[i % BesideMemory<T>::kSlots]; }

    // Until the head of K and V of that part is ready: then its facts are in the block's memory. Asks for several parts
    // at once, since the answer takes its time. By a warp whose lanes stay together: where they do not, what they have
    // in common takes registers of each.
    __device__ void wait_for_head(uint32_t i) const {
        if (!__any_sync(~0u, i >= memory.known_parts && i < parts())) return;
        const unsigned lane = threadIdx.x % 32;
        const bool asks = lane < BesideMemory<T>::kAskedAtOnce && i + lane < parts();
        const uint32_t of_lane = head(part(asks ? i + lane : i));
        const auto lanes_ready = [&] {
            return __ballot_sync(~0u, asks && load_acquire(ready + of_lane) == 2 * tiles_of_head());
        };
        unsigned lanes;
        while (((lanes = lanes_ready()) & 1) == 0) __nanosleep(100);
        const unsigned count = static_cast<unsigned>(__ffs(static_cast<int>(~lanes))) - 1;
        if (lane < count) memory.facts[(i + lane) % BesideMemory<T>::kSlots] = prepared.heads[of_lane];
        memory.known_parts = i + count;
        __syncwarp();
        publish_global_to_async();
    }

private:
    __device__ uint32_t head(const JobPart& part) const { return args.kv_unit(shares.of_unit.quotient(part.job)); }
    __device__ uint32_t tiles_of_head() const { return static_cast<uint32_t>(tiles_of<typename T::Rules>(args.keys)); }
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    wgmma_beside_kernel(const __grid_constant__ ForwardArgs args, const __grid_constant__ Prepared prepared,
                        const ReadyHalves* ready, const __grid_constant__ LateShares shares, Handover<T> handover) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    static_assert(!T::kMasked);
    extern __shared__ __align__(1024) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<BesideMemory<T>*>(block_memory);
    if (address_of(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (threadIdx.x == 0) {
        memory.late_share = shares.share(take_share<T>(handover));
        memory.known_parts = 0;
        TileFetcher<T>::init(memory);
    }
    __syncthreads();

    const BesideWork<T> block{args, prepared, ready, shares, memory};
    Queries<typename T::Rules, T::kDim>& queries = memory.queries[group];
    WorkOf<T> work(memory, prepared.tiles, group);
    const auto sync = [&] { sync_group(group); };
    const unsigned thread = threadIdx.x % kGroupThreads;
    JobPart part = block.part(0);
    GroupRows where = block.rows(part, group);
    ConditionalQueries<typename T::Rules, T::kDim> coming;
    coming.fetch(args, where);
    if (work.products.warp == 0) block.wait_for_head(0);
    __syncthreads();
    work.products.fetcher.start(block.tiles(0));
    for (uint32_t i = 0; i < block.parts(); ++i) {
        if (work.products.warp == 0)
            work.products.fetcher.announce(block.tiles(i + 1), work.products.ring.turn(),
                                           [&] { block.wait_for_head(i + 1); });
        if (where.rows > 0) {
            sync_group(group); // all of it has done with the rows before
            work.products.ring.wait();
            const HeadFacts& facts = block.facts(i); // read where it is needed, for a few registers less
            coming.store(args, queries, facts);
            publish_to_async();
            sync_group(group);
            work.begin(queries);
            if (part.first > 0) // the head of the job, which the next share's block did
                handover.template take<0>(work.running, handover_place<T>(memory.late_share.block + 1, group), 1,
                                          thread, sync);
            work.attend(queries, args, where, part.first, part.end, facts);
        } else {
            work.products.skip(part.end - part.first);
        }
        // As in wgmma_kernel.
        const JobPart done = part;
        const GroupRows rows_done = where;
        part = block.part(min(i + 1, block.parts() - 1));
        where = block.rows(part, group);
        coming.fetch(args, where);
        if (rows_done.rows == 0) continue;
        if (done.end < shares.tiles)
            handover.leave(work.running, handover_place<T>(memory.late_share.block, group), 1, thread, sync);
        else
            work.store(queries, args, rows_done);
    }
    wait_for_kernel_before();
#else
    __trap();
#endif
}

// None where it does not pay: of 16-bit operands either, of which the pre-pass reads half the bytes.
template <class T>
std::optional<BesidePlan> beside_plan(const ForwardArgs& args, int64_t multiprocessors) {
    static_assert(T::kBlocks == 1, "so many blocks are late as multiprocessors prepare");
    if (args.sight.more != 0 || args.is_narrow()) return std::nullopt;
    return BesidePlan::of({args.units, args.kv_units(), args.queries, tiles_of<typename T::Rules>(args.keys),
                           T::kGroups, multiprocessors});
}

template <class T>
void launch_beside(const ForwardArgs& args, const BesidePlan& plan, cudaStream_t stream) {
    static_assert(kMayPrepareBeside<typename T::Rules, T::kDim>, "nobody would prepare the other heads");
    constexpr size_t kBytes = sizeof(BesideMemory<T>);
    static_assert(kBytes <= 227 * 1024);
    const auto kernel = wgmma_beside_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const size_t places = handover_places<T>(plan.shares.blocks());
    const auto of_heads = static_cast<size_t>(ready_bytes(args.kv_units()));
    const Prepared prepared =
        launch_prepare<typename T::Rules>(args, WorkOf<T>::kFacts, of_heads + Handover<T>::cleared_bytes(places),
                                          Prepass{plan.heads_before, plan.preparers}, stream);
    launch_early("launch of wgmma_beside_kernel", kernel, plan.shares.blocks(), T::kThreads, kBytes, stream, args,
                 prepared, reinterpret_cast<const ReadyHalves*>(prepared.end), plan.shares,
                 Handover<T>(prepared.end + of_heads, places));
}

} // namespace hw4::gpu::fixed_point
