// The kernel of wgmma_block.cuh without statistics, for rows of exactly as many columns as the kernel has. It does
// little between jobs, which matters most for short jobs: one lane for each of several jobs computes the job's facts,
// and stores them in shared memory, so that hardly anything stays in registers through the products; and rows never
// end in the middle of a piece. Its code is short, too: that of wgmma_block.cuh under a mask is larger than a
// multiprocessor's instruction cache, and waits for instructions a quarter of the time where jobs are short.
//
// Without a mask heads may be prepared beside it (card_plan.h): before a block copies a head's tiles, it then asks
// whether the head is ready, and the multiprocessors that prepare heads join late.
#pragma once

#include <type_traits>

#include "src/gpu/fixed/forward/card_plan.h"
#include "src/gpu/fixed/forward/queries.cuh"
#include "src/gpu/fixed/forward/wgmma_block.cuh"

namespace hw4::gpu::fixed_point {

// ---- Loads of a group's rows of Q, which have as many columns as the kernel

template <class T>
class WholeQueries {
public:
    using Stored = typename T::Stored;

    // From a job's row `first` on, in rows `stride` bytes apart; `last` is the last row that exists. In place of a row
    // behind it, it loads the last: that result is not used, and without a condition there is nothing to wait for.
    __device__ __forceinline__ void fetch(const Stored* job, uint32_t stride, int first, int last) {
        const Stored* const from = job + Digits::column(0);
#pragma unroll
        for (int step = 0; step < Digits::kSteps; ++step)
            x_[step] = __ldcg(reinterpret_cast<const Four<Stored>*>(
                row_behind(from, static_cast<uint32_t>(min(first + Digits::row(step), last)), stride)));
    }

    // All threads of a group call it. `facts`: those of the head of the rows' keys.
    __device__ __forceinline__ void store(const ForwardArgs& args, Queries<typename T::Rules, T::kDim>& to,
                                          const HeadFacts& facts) const {
        typename Digits::Rows rows;
        const auto widen = [&](const auto& floats) {
#pragma unroll
            for (int step = 0; step < Digits::kSteps; ++step) rows[step][0] = floats(x_[step]);
        };
        // One branch for all rows: each branch takes longer than the few instructions that it chooses.
        if constexpr (sizeof(Stored) == sizeof(float))
            widen(Float32Element::floats);
        else if (args.element == Element::bf16)
            widen(NarrowElement<Bf16>::floats);
        else
            widen(NarrowElement<Fp16>::floats);
        Digits::store(to, 0, rows, args.scale.c, facts);
        if (Digits::thread() == 0) to.least_value = facts.v.smallest();
    }

private:
    using Digits = QueryDigits<typename T::Rules, T::kDim, T::kManyJobs>;
    static_assert(!T::Rules::kNeedsLengths);
    static_assert(Digits::kAhead == Digits::kSteps && Digits::kParts == 1, "all are fetched at once");

    Four<Stored> x_[Digits::kSteps];
};

// The variant T with tensors of this element type.
template <class T, class Stored_>
struct WholeVariant : T {
    using Stored = Stored_;
    static constexpr bool kManyJobs = true;
};

// What a group's rows see under a mask. Computed once for a part, in several lanes: between jobs it would take long.
struct SeenTiles {
    unsigned whole;  // tiles that all rows see whole
    unsigned halves; // halves of tiles that any row sees part of; 0: there are no rows
};

// The facts of a part of a block's share.
template <class T>
struct KnownPart {
    using Stored = typename T::Stored;

    ExponentRange k; // of the head
    ExponentRange v;
    const Stored* queries; // the job's first row
    Stored* out;           // the job's first row
    uint32_t head_tiles;   // the head's first tile, among all heads' tiles
    uint32_t first;        // tiles [first, end) of the head; another block computes the others
    uint32_t end;
    uint32_t tiles; // of the whole job
    int64_t row;    // where the job begins in the unit; below 0 if its first groups have no rows, as under a mask
    int rows;       // from there to the job's end
    int missing;    // the first ones, which do not exist
    int turned;     // 0, or the last group's number: then the first group has the last rows
    SeenTiles seen[T::kMasked ? T::kGroups : 1]; // by place

    __device__ TileRun run() const { return {head_tiles + first, end - first}; }
    // Which 64 of the job's rows a group computes. Under a mask the last see most, and are the first group's in every
    // second part: if they were always the same group's, the others would wait for it.
    __device__ int place(int group) const { return T::kMasked ? abs(turned - group) : group; }
    // Under a mask a unit's first job may lack some groups, otherwise the last.
    __device__ bool has_rows(int place) const {
        return T::kMasked ? seen[place].halves > 0 : rows > place * kGroupRows;
    }
    // Not for pointers: it does not know its unit.
    __device__ GroupRows rows_of(int place) const {
        return {0, row + place * kGroupRows, min(kGroupRows, rows - place * kGroupRows)};
    }
};

// A group's rows, read from shared memory where they are needed, since registers are few.
template <class T>
struct RowsOfPart {
    const KnownPart<T>& part;
    int group;

    template <class Rules>
    __device__ unsigned whole_tiles(const ForwardArgs&) const {
        return seen().whole;
    }
    __device__ unsigned end_tile() const { return (seen().halves + 1) / 2; }
    // Whether no row sees more than the first half of the tile's keys.
    __device__ bool sees_half(unsigned tile) const { return seen().halves == 2 * tile + 1; }
    template <class Rules, bool kMasked>
    __device__ TileSight sight(const ForwardArgs& args, unsigned tile, int more) const {
        return part.rows_of(part.place(group)).template sight<Rules, kMasked>(args, tile, more);
    }

private:
    __device__ const SeenTiles& seen() const { return part.seen[part.place(group)]; }
};

template <class T>
using WholeShares = std::conditional_t<T::kMasked, MaskedShares<JobTilesFor<typename T::Rules>>, LateShares>;
template <class T>
using WholeShare = std::conditional_t<T::kMasked, Share, LateShare>;

// A block's shared memory.
template <class T>
struct WholeMemory : BlockMemory<T> {
    // The last kSlots parts of the block's share are kept. When the first warp is before part i, asks for parts from i
    // + 1 on, and has fetched a tile of part i, all groups have left the tile kStages before that tile: each part has
    // at least one tile, so no group is before the end of part i - kStages.
    static constexpr unsigned kSlots = 24;
    static constexpr unsigned kAskedAtOnce = kSlots - (T::kStages + 2);
    static_assert(kAskedAtOnce < 32, "a lane for each");

    WholeShare<T> share_of_block;
    uint32_t known_parts; // parts with heads that are known to be ready
    KnownPart<T> slots[kSlots];
};

// The work of a block: its share, in terms of the problem. It has references because registers are few.
template <class T>
struct WholeWork {
    using Part = KnownPart<T>;

    const ForwardArgs& args;
    const Prepared& prepared;
    const ReadyHalves* ready; // of each head; null: all heads are ready
    const WholeShares<T>& shares;
    WholeMemory<T>& memory;
    uint32_t parts;

    // The part is known when its first tile has arrived.
    __device__ const Part& part(uint32_t i) const { return memory.slots[i % WholeMemory<T>::kSlots]; }

    // None if there is no such part.
    __device__ TileRun run(uint32_t i) const { return i < parts ? part(i).run() : TileRun{0, 0}; }

    // Waits until the head of K and V of that part is ready: then the part is in the block's memory. Asks for several
    // at once, since answers are slow. A converged warp calls it: otherwise shared values would take registers in each
    // lane.
    __device__ void wait_for_part(uint32_t i) const {
        if (!__any_sync(~0u, i >= memory.known_parts && i < parts)) return;
        const unsigned lane = threadIdx.x % 32;
        const bool asks = lane < WholeMemory<T>::kAskedAtOnce && i + lane < parts;
        const JobPart part = shares.part(memory.share_of_block, asks ? i + lane : i);
        const uint32_t unit = jobs_of_unit().quotient(part.job);
        const uint32_t head = args.kv_unit(unit);
        const auto lanes_ready = [&] {
            if constexpr (T::kMasked)
                return __ballot_sync(~0u, asks);
            else
                return __ballot_sync(~0u, asks && (ready == nullptr || load_acquire(ready + head) == 2 * shares.tiles));
        };
        unsigned lanes;
        while (((lanes = lanes_ready()) & 1) == 0) __nanosleep(100);
        const unsigned count = static_cast<unsigned>(__ffs(static_cast<int>(~lanes))) - 1;
        if (lane < count) memory.slots[(i + lane) % WholeMemory<T>::kSlots] = known(i + lane, part, unit, head);
        __syncwarp(); // all lanes have read the old values
        memory.known_parts = i + count;
        __syncwarp();
        publish_global_to_async();
    }

private:
    __device__ const Divisor& jobs_of_unit() const {
        if constexpr (T::kMasked)
            return shares.tiles.jobs;
        else
            return shares.of_unit;
    }

    __device__ Part known(uint32_t i, const JobPart& part, uint32_t unit, uint32_t head) const {
        using Stored = typename T::Stored;
        constexpr int64_t kRows = T::kGroups * kGroupRows;
        const int64_t missing = T::kMasked ? missing_groups(args.queries, T::kGroups) * kGroupRows : 0;
        const int64_t row = int64_t{part.job - unit * jobs_of_unit().number()} * kRows - missing;
        const auto tiles = static_cast<uint32_t>(tiles_of<typename T::Rules>(args.keys));
        uint32_t job_tiles = tiles;
        if constexpr (T::kMasked) job_tiles = shares.tiles.of(part.job);
        const HeadFacts& facts = prepared.heads[head];
        Part known{facts.k,
                   facts.v,
                   args.q.template as<const Stored>().of(unit) + row * static_cast<int64_t>(args.q.row),
                   args.out.template as<Stored>().of(unit) + row * static_cast<int64_t>(args.out.row),
                   head * tiles,
                   part.first,
                   part.end,
                   job_tiles,
                   row,
                   static_cast<int>(min(kRows, args.queries - row)),
                   static_cast<int>(max(int64_t{0}, -row)),
                   i % 2 != 0 ? T::kGroups - 1 : 0,
                   {}};
        if constexpr (T::kMasked) {
#pragma unroll
            for (int place = 0; place < T::kGroups; ++place) {
                const GroupRows rows = known.rows_of(place);
                if (rows.rows <= 0 || rows.first < 0) continue;
                const int64_t most = args.sight.of(rows.first + rows.rows - 1); // at least 1
                known.seen[place] = {rows.template whole_tiles<typename T::Rules>(args),
                                     static_cast<unsigned>((most + kGroupRows - 1) / kGroupRows)};
            }
        }
        return known;
    }
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    wgmma_whole_kernel(const __grid_constant__ ForwardArgs args, const __grid_constant__ Prepared prepared,
                       const ReadyHalves* ready, const __grid_constant__ WholeShares<T> shares, Handover<T> handover) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char block_memory[];
    auto& memory = *reinterpret_cast<WholeMemory<T>*>(block_memory);
    if (address_of(block_memory) % 1024 != 0) __trap(); // the swizzle counts from there
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (threadIdx.x == 0) {
        memory.share_of_block = shares.share(take_share<T>(handover));
        memory.known_parts = 0;
        TileFetcher<T>::init(memory);
    }
    __syncthreads();
    if (ready == nullptr) wait_for_kernel_before();

    const WholeWork<T> block{args, prepared, ready, shares, memory, uniform(memory.share_of_block.parts)};
    Queries<typename T::Rules, T::kDim>& queries = memory.queries[group];
    WorkOf<T> work(memory, prepared.tiles, group);
    const auto sync = [&] { sync_group(group); };
    const unsigned thread = threadIdx.x % kGroupThreads;
    WholeQueries<T> coming;
    const auto fetch_rows = [&](uint32_t i) {
        const auto& part = block.part(i);
        coming.fetch(part.queries, static_cast<uint32_t>(args.q.row * sizeof(typename T::Stored)),
                     max(part.missing, part.place(group) * kGroupRows), part.rows - 1);
    };
    if (work.products.warp == 0) block.wait_for_part(0);
    __syncthreads();
    work.products.fetcher.start(block.run(0));
    fetch_rows(0);
    for (uint32_t i = 0; i < block.parts; ++i) {
        if (work.products.warp == 0)
            work.products.fetcher.announce(work.products.ring.turn(), [&] {
                block.wait_for_part(i + 1);
                return block.run(i + 1);
            });
        const auto& part = block.part(i); // read where it is needed, which saves a few registers
        const bool any = part.has_rows(part.place(group));
        typename WorkOf<T>::Ends ends{};
        if (any) {
            sync_group(group); // the whole group is done with the previous rows
            const HeadFacts facts{part.k, part.v, 0};
            coming.store(args, queries, facts);
            publish_to_async();
            sync_group(group);
            work.begin(queries);
            if (part.first > 0) // the next share's block computed the first tiles of the job
                handover.template take<0>(work.running,
                                          handover_place<T>(memory.share_of_block.block + 1, part.place(group)), 1,
                                          thread, sync);
            // Under a mask the first groups see less than the whole job.
            const RowsOfPart<T> where{part, group};
            const unsigned end = T::kMasked ? min(part.end, where.end_tile()) : part.end;
            work.attend(queries, args, where, part.first, end, facts);
            if (T::kMasked) work.products.skip(part.end - max(part.first, end));
            ends = work.ends(); // before the next rows are loaded: later, it would wait for them too
        } else {
            work.products.skip(part.end - part.first);
        }
        // The next rows are loaded while the results of these are stored. After the last rows, they are loaded again
        // and not used: otherwise the compiler would keep the registers of `rows` up to here.
        const bool last = i + 1 == block.parts;
        if (!last) work.products.ring.wait(); // then the part is known
        fetch_rows(last ? i : i + 1);
        if (!any) continue;
        if (part.end < part.tiles)
            handover.leave(work.running, handover_place<T>(memory.share_of_block.block, part.place(group)), 1, thread,
                           sync);
        else
            work.store_whole(queries, args, part, part.place(group), ends);
    }
    if (ready != nullptr) wait_for_kernel_before();
#else
    __trap();
#endif
}

// Whether this kernel takes such rows, if there are enough of them.
template <class T>
bool takes_rows(const ForwardArgs& args) {
    static_assert(T::kBlocks == 1, "so many blocks are late as multiprocessors prepare");
    static_assert(T::kGroups == 3, "as takes_whole() has it");
    return args.dim == T::kDim && args.statistics == nullptr && takes_whole(args.keys, args.queries, args.dim) &&
           std::max(args.q.row, args.out.row) <= UINT32_MAX / sizeof(float);
}

// None if another kernel has to compute it.
template <class T>
std::optional<CardPlan> whole_plan(const ForwardArgs& args, int64_t multiprocessors) {
    if (args.sight.more != 0 || !takes_rows<T>(args)) return std::nullopt;
    const CardLaunch launch{args.units, args.kv_units(), args.queries, tiles_of<typename T::Rules>(args.keys),
                            T::kGroups, multiprocessors};
    if constexpr (kMayPrepareBeside<typename T::Rules, T::kDim>)
        if (const auto beside = CardPlan::beside(launch)) return beside;
    return CardPlan::before(launch);
}

// The same under a mask, where all rows see a key and the jobs are more than the blocks.
template <class T>
std::optional<WholeShares<T>> masked_whole_shares(const ForwardArgs& args, int64_t multiprocessors) {
    if (args.sight.more == 0 || args.sight.first < 1 || !takes_rows<T>(args)) return std::nullopt;
    return WholeShares<T>::of(args.units, job_tiles<typename T::Rules>(args, T::kGroups), multiprocessors);
}

// With these heads prepared beside the products, if any.
template <class T>
void launch_whole(const ForwardArgs& args, const WholeShares<T>& shares, const Prepass& prepass, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(WholeMemory<T>);
    static_assert(kBytes <= 227 * 1024);
    const auto kernel = wgmma_whole_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const size_t places = handover_places<T>(shares.blocks());
    const auto of_heads = static_cast<size_t>(prepass.multiprocessors > 0 ? ready_bytes(args.kv_units()) : 0);
    const Prepared prepared = launch_prepare<typename T::Rules>(
        args, WorkOf<T>::kFacts, of_heads + Handover<T>::cleared_bytes(places), prepass, stream);
    const auto* const ready =
        prepass.multiprocessors > 0 ? reinterpret_cast<const ReadyHalves*>(prepared.end) : nullptr;
    launch_early("launch of wgmma_whole_kernel", kernel, shares.blocks(), T::kThreads, kBytes, stream, args, prepared,
                 ready, shares, Handover<T>(prepared.end + of_heads, places));
}

} // namespace hw4::gpu::fixed_point
