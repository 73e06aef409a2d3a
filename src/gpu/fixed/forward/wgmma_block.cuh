// A block on Hopper's integer tensor cores, under fixed or fixed16. It has some groups of 128 threads, each with 64
// query rows, and computes its share of the work (shares.h), part after part: in each part all groups go through a
// unit's tiles of keys.
//
// Several groups run on a multiprocessor, in one block or in several: while one waits for the tensor cores, the others
// make weights. Doing both at once is faster than one after the other, but not twice: busy tensor cores leave issue
// slots for only part of the other arithmetic, the fewer the shorter the products' instructions are.
#pragma once

#include <algorithm>
#include <cstddef>

#include "src/gpu/common/handover.cuh"
#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/common/shares.h"
#include "src/gpu/common/wgmma.cuh"
#include "src/gpu/device/check.h"
#include "src/gpu/fixed/forward/prepare.h"
#include "src/gpu/fixed/forward/queries.cuh"

namespace hw4::gpu::fixed_point {

// ---- Hopper's asynchronous matrix products of bytes

constexpr uint32_t kStepBytes = 32; // of each row, per instruction

// One instruction: 64 rows and 32 bytes of each of A, from shared memory or from four words per thread, times kColumns
// rows of B. begin() sets the first kColumns / 2 sums of a thread, add() adds to them. Macros build the text, since PTX
// names every register. The digits in words, the weights, are unsigned.
template <int kColumns>
struct Product;

#define HW4_BEGUN(x) "=r"(x)
#define HW4_ADDED(x) "+r"(x)
#define HW4_MULTIPLY(columns, sums, is, adds, types, operands, ...)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k32.s32." types " {" HW4_NAMES_##sums                   \
                 "}, " HW4_##operands##_##sums ", p;\n}\n"                                                             \
                 : HW4_SUMS_##sums(is, 0)                                                                              \
                 : __VA_ARGS__)

#define HW4_PRODUCT(columns, sums)                                                                                     \
    template <>                                                                                                        \
    struct Product<columns> {                                                                                          \
        static __device__ __forceinline__ void begin(int32_t* s, uint64_t a, uint64_t b) {                             \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", "s8.s8", SHARED, "l"(a), "l"(b));                              \
        }                                                                                                              \
        static __device__ __forceinline__ void add(int32_t* s, uint64_t a, uint64_t b) {                               \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", "s8.s8", SHARED, "l"(a), "l"(b));                              \
        }                                                                                                              \
        static __device__ __forceinline__ void begin(int32_t* s, const uint32_t (&a)[4], uint64_t b) {                 \
            HW4_MULTIPLY(columns, sums, HW4_BEGUN, "0", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));                          \
        }                                                                                                              \
        static __device__ __forceinline__ void add(int32_t* s, const uint32_t (&a)[4], uint64_t b) {                   \
            HW4_MULTIPLY(columns, sums, HW4_ADDED, "1", "u8.s8", WORDS, HW4_A_WORDS, "l"(b));                          \
        }                                                                                                              \
    }

HW4_PRODUCT(32, 16);
HW4_PRODUCT(64, 32);
HW4_PRODUCT(96, 48);
HW4_PRODUCT(128, 64);
HW4_PRODUCT(192, 96);
HW4_PRODUCT(256, 128);

#undef HW4_BEGUN
#undef HW4_ADDED
#undef HW4_MULTIPLY
#undef HW4_PRODUCT

// Products of three digits by level: sums [L2 | L1 | L0] of kWidth columns each. B's planes follow one another, low,
// middle and high, so one instruction multiplies a plane of A by all planes of B that count with it: fewer and longer
// instructions than one for each pair of planes. The longer they are, the less they and other warps' arithmetic hold
// each other up. high() begins the sums if kFirst; middle() and low() add. A is a descriptor or words.
template <int kWidth>
struct LevelProducts {
    using Sums = int32_t[3 * kWidth / 2];

    template <bool kFirst, class A>
    static __device__ __forceinline__ void high(Sums& s, const A& a, uint64_t b) {
        if constexpr (kFirst)
            Product<3 * kWidth>::begin(s, a, b);
        else
            Product<3 * kWidth>::add(s, a, b);
    }
    template <class A>
    static __device__ __forceinline__ void middle(Sums& s, const A& a, uint64_t b) {
        Product<2 * kWidth>::add(s, a, b);
    }
    template <class A>
    static __device__ __forceinline__ void low(Sums& s, const A& a, uint64_t b) {
        Product<kWidth>::add(s, a, b);
    }
};

// ---- The copies of the tiles of K and V: asynchronous, to a ring of stages in shared memory, some time before all
// groups of the block need them, one tile after the other. The bookkeeping for every tile uses numbers that a warp's
// lanes share, in uniform registers: per lane, they would take registers that are not free; in memory, they would make
// the warp that starts the copies the slowest, for which all others wait.

// Consecutive tiles that a block needs.
struct TileRun {
    uint32_t first; // among all heads' tiles, which are fewer than 2^32: each takes kilobytes
    uint32_t count;
};

// A block's shared memory.
template <class T>
struct BlockMemory {
    using Layout = typename T::Layout;
    static constexpr int kStage = ((Layout::kScalesApart ? Layout::kScales : Layout::kBytes) + 1023) / 1024 * 1024;

    uint64_t filled[T::kStages];
    uint64_t released[T::kStages]; // by all threads
    TileRun next_run;              // to be fetched after the current run, once it is known
    uint32_t share;                // number of the block's share
    TileScales scales[Layout::kScalesApart ? T::kStages : 1];
    alignas(1024) unsigned char tiles[T::kStages][kStage];
    Queries<typename T::Rules, T::kDim> queries[T::kGroups];
};

// The addresses of things in a block's shared memory.
template <class T>
struct RingAddresses {
    using Memory = BlockMemory<T>;
    SharedAddress memory;

    __device__ explicit RingAddresses(const Memory& of) : memory(uniform(address_of(&of))) {}

    __device__ __forceinline__ SharedAddress filled(unsigned stage) const { return barrier<kFilled>(stage); }
    __device__ __forceinline__ SharedAddress released(unsigned stage) const { return barrier<kReleased>(stage); }
    __device__ __forceinline__ SharedAddress tile(unsigned stage) const {
        return memory + kTiles + stage * Memory::kStage;
    }
    __device__ __forceinline__ SharedAddress scales(unsigned stage) const {
        if constexpr (T::Layout::kScalesApart)
            return memory + kScales + stage * static_cast<uint32_t>(sizeof(TileScales));
        else
            return tile(stage) + T::Layout::kScales;
    }

private:
    static constexpr SharedAddress kFilled = offsetof(Memory, filled);
    static constexpr SharedAddress kReleased = offsetof(Memory, released);
    static constexpr SharedAddress kScales = offsetof(Memory, scales);
    static constexpr SharedAddress kTiles = offsetof(Memory, tiles);

    template <SharedAddress kFirst>
    __device__ __forceinline__ SharedAddress barrier(unsigned stage) const {
        return memory + kFirst + stage * static_cast<uint32_t>(sizeof(uint64_t));
    }
};

// One warp of the block starts the copies of tiles for all. Other warps have a fetcher, too, and do not use it.
template <class T>
class TileFetcher {
    static_assert(1 <= T::kAhead && T::kAhead < T::kStages); // RingPosition::plus() wraps around once

public:
    __device__ TileFetcher(BlockMemory<T>& memory, const unsigned char* tiles)
        : memory_(memory), at_(memory), tiles_(tiles) {}

    // One thread calls it before all others begin.
    static __device__ void init(BlockMemory<T>& memory) {
        for (unsigned i = 0; i < T::kStages; ++i) {
            init_barrier(address_of(&memory.filled[i]), 1);
            init_barrier(address_of(&memory.released[i]), T::kThreads);
        }
        memory.next_run = {0, 0};
        publish_to_async();
    }

    __device__ void start(const TileRun& first) { run_ = {uniform(first.first), uniform(first.count)}; }

    // Called before the turn of a run's first tile: `next` returns the run that follows, once it can be fetched; the
    // run's own first tile is fetched before that.
    template <class Next>
    __device__ void announce(RingPosition turn, const Next& next) {
        fetch_ahead(turn); // of the run itself, which is then no longer the next
        const TileRun run = next();
        if (is_elected()) memory_.next_run = run;
        __syncwarp();
        fetch_ahead(turn);
    }

    // Called while the tile at `turn` is being used: fetches a later tile.
    __device__ __forceinline__ void refill(RingPosition turn) {
        if (!fetch(turn)) --unused_;
    }

private:
    using Layout = typename T::Layout;

    BlockMemory<T>& memory_;
    RingAddresses<T> at_;
    const unsigned char* tiles_;
    TileRun run_{0, 0};   // the rest of the run that is being fetched
    uint32_t unused_ = 0; // fetched tiles, from the one at `turn` on

    __device__ void fetch_ahead(RingPosition turn) {
        for (; unused_ < T::kAhead; ++unused_)
            if (!fetch(turn)) return;
    }

    // Fetches the next tile, into a stage that all threads have left or are about to leave; false if there is none.
    __device__ __forceinline__ bool fetch(RingPosition turn) {
        if (__builtin_expect(run_.count == 0, 0) && !take_next_run()) return false;
        const RingPosition to = turn.plus<T::kStages>(unused_);
        // A barrier that was not used yet counts as one that has just ended its round.
        wait_for_phase(at_.released(to.stage), static_cast<int>(to.phase ^ 1));
        if (is_elected()) {
            const unsigned char* const from = tiles_ + size_t{run_.first} * Layout::kStride;
            constexpr int kAtOnce = Layout::kScalesApart ? Layout::kScales : Layout::kBytes;
            expect_bytes(at_.filled(to.stage), Layout::kBytes);
            copy_bytes(at_.tile(to.stage), from, kAtOnce, at_.filled(to.stage));
            if constexpr (Layout::kScalesApart)
                copy_bytes(at_.scales(to.stage), from + Layout::kScales, sizeof(TileScales), at_.filled(to.stage));
        }
        ++run_.first;
        --run_.count;
        return true;
    }

    __device__ bool take_next_run() {
        run_ = {uniform(memory_.next_run.first), uniform(memory_.next_run.count)};
        __syncwarp();
        if (is_elected()) memory_.next_run.count = 0;
        __syncwarp();
        return run_.count != 0;
    }
};

// The tiles of a block's share, as a group goes through them.
template <class T>
class TileRing {
public:
    __device__ explicit TileRing(const BlockMemory<T>& memory) : at_(memory) {}

    // In bytes, from the first stage on.
    __device__ __forceinline__ uint32_t stage_offset() const { return turn_.stage * BlockMemory<T>::kStage; }

    __device__ __forceinline__ void wait() const {
        wait_for_phase(at_.filled(turn_.stage), static_cast<int>(turn_.phase));
    }

    __device__ __forceinline__ TileScales scales() const {
        TileScales of{};
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                     : "=r"(of.k_exponent), "=r"(of.v_exponent)
                     : "r"(at_.scales(turn_.stage)));
        return of;
    }

    // Every thread calls it when it has read what it needs.
    __device__ __forceinline__ void release() const { arrive(at_.released(turn_.stage)); }

    __device__ __forceinline__ RingPosition turn() const { return turn_; }
    __device__ __forceinline__ void advance() { turn_ = turn_.plus<T::kStages>(1); }

private:
    RingAddresses<T> at_;
    RingPosition turn_;
};

// ---- The block

template <class Rules_, int kDim_, int kGroups_, int kStages_, int kBlocks_, bool kMasked_ = false>
struct BlockVariant {
    using Rules = Rules_;
    static constexpr int kDim = kDim_;
    using Layout = TileLayout<Rules, kDim>;
    static constexpr int kGroups = kGroups_; // in a block
    static constexpr int kStages = kStages_;
    static constexpr int kBlocks = kBlocks_; // per multiprocessor
    static constexpr int kThreads = kGroups * kGroupThreads;
    // How many tiles before its turn a tile is fetched. The slowest group may be the other stages behind.
    static constexpr unsigned kAhead = kStages > 4 ? kStages / 2 : kStages > 3 ? 2 : kStages - 1;
    static constexpr bool kJoint = kGroups > 1;
    static constexpr bool kMasked = kMasked_;
    static constexpr bool kManyJobs = false; // for jobs of few tiles, with less work between jobs
    using Masked = BlockVariant<Rules, kDim, kGroups, kStages, kBlocks, true>; // separate code: it takes registers
};

template <class T>
using RowDescriptor = PlaneDescriptor<T::kDim>; // of Q and K

// The handling of the current tile, which all groups share.
template <class T>
struct GroupTiles {
    TileRing<T> ring;
    TileFetcher<T> fetcher;
    uint32_t warp; // of the block; the first warp fetches tiles
    RowDescriptor<T> q;
    RowDescriptor<T> k; // in the first stage
    PlaneDescriptor<T::Rules::kTileKeys> v;

    __device__ GroupTiles(BlockMemory<T>& memory, const unsigned char* tiles, int group)
        : ring(memory), fetcher(memory, tiles), warp(uniform(threadIdx.x / 32)),
          q(RowDescriptor<T>::at(memory.queries[group].planes)),
          k(RowDescriptor<T>::at(memory.tiles[0])), v{k.low + (T::Layout::kValues >> 4)} {}

    __device__ __forceinline__ void leave() { ring.advance(); }

    // Skips tiles that only other groups need.
    __device__ void skip(unsigned tiles) {
#pragma unroll 1
        for (; tiles > 0; --tiles) {
            ring.wait();
            if (T::kMasked && warp == 0) fetcher.refill(ring.turn()); // without a mask it never skips
            ring.release();
            ring.advance();
        }
    }
};

// The work of a group on its rows under the contract of these rules; it has GroupTiles as `products`.
template <class T, class Rules>
struct GroupWork;
template <class T>
using WorkOf = typename GroupWork<T, typename T::Rules>::Type;

// Under a mask the number of visible keys changes from job to job by a multiple of a group's rows.
template <class Rules>
using JobTilesFor = JobTilesIn<Rules::kTileKeys / kGroupRows>;

// The work of a block: its share, in terms of the problem.
template <class T>
struct BlockWork {
    const ForwardArgs& args;
    const JobTilesFor<typename T::Rules>& job_tiles;
    Share share;

    __device__ JobPart part(uint32_t i) const { return share.part(i, job_tiles); }

    // None if there is no such part.
    __device__ TileRun tiles(uint32_t i) const {
        if (i >= share.parts) return {0, 0};
        const JobPart of = part(i);
        const auto all = static_cast<uint32_t>(tiles_of<typename T::Rules>(args.keys));
        return {args.kv_unit(job_tiles.jobs.quotient(of.job)) * all + of.first, of.end - of.first};
    }

    __device__ GroupRows rows(const JobPart& part, int group) const {
        const uint32_t unit = job_tiles.jobs.quotient(part.job);
        const uint32_t before = part.job - unit * job_tiles.jobs.number();
        const int64_t missing = T::kMasked ? missing_groups(args.queries, T::kGroups) : 0;
        return GroupRows::of(args, unit, int64_t{before} * T::kGroups + group - missing);
    }
};

// Running sums that another block continues: a place for each share and group.
template <class T>
using Handover = HandingOn<WorkOf<T>::Running::kNumbers, kGroupThreads>;

template <class T>
size_t handover_places(int64_t blocks) {
    return static_cast<size_t>(blocks) * T::kGroups;
}

template <class T>
__device__ __forceinline__ size_t handover_place(uint32_t share, int group) {
    return size_t{share} * T::kGroups + static_cast<size_t>(group);
}

// The share that the block takes. It may have to wait for the block of the next share, so shares go, from the last to
// the first, to blocks in the order in which they start: a block that is waited for has started. One thread calls it
// before it waits for the pre-pass: the memory was cleared before that.
template <class T>
__device__ __forceinline__ uint32_t take_share(const Handover<T>& handover) {
    const unsigned started = handover.any() ? handover.count() : blockIdx.x;
    return gridDim.x - 1 - started;
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    wgmma_kernel(const __grid_constant__ ForwardArgs args, Prepared prepared,
                 const __grid_constant__ SharesOf<JobTilesFor<typename T::Rules>> shares, Handover<T> handover) {
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
    Queries<typename T::Rules, T::kDim>& queries = memory.queries[group];
    WorkOf<T> work(memory, prepared.tiles, group);
    work.products.fetcher.start(block.tiles(0));
    const auto sync = [&] { sync_group(group); };
    const unsigned thread = threadIdx.x % kGroupThreads;
    JobPart part = block.part(0);
    GroupRows where = block.rows(part, group);
    ComingQueries<typename T::Rules, T::kDim> coming;
    coming.fetch(args, prepared, where);
    for (uint32_t i = 0; i < block.share.parts; ++i) {
        if (work.products.warp == 0) {
            const TileRun next = block.tiles(i + 1); // here: inside the lambda, the loop compiles to other code
            work.products.fetcher.announce(work.products.ring.turn(), [&] { return next; });
        }
        if (where.rows > 0) {
            sync_group(group); // the whole group is done with the previous rows
            coming.store(args, queries);
            publish_to_async();
            sync_group(group);
            work.begin(queries);
            if (part.first > 0) // the first tiles of the job were the first work of the next share's block
                handover.template take<0>(work.running, handover_place<T>(block.share.block + 1, group), 1, thread,
                                          sync);
            // Under a mask the first groups see less than the whole job.
            const auto seen_end = [&] { return where.template end_tile<typename T::Rules>(args); };
            const unsigned end = T::kMasked ? min(part.end, seen_end()) : part.end;
            work.attend(queries, args, where, part.first, end, coming.facts);
            if (T::kMasked) work.products.skip(part.end - max(part.first, min(part.end, seen_end())));
        } else {
            work.products.skip(part.end - part.first);
        }
        // The next rows are loaded while the results of these are stored. After the last rows, they are loaded again
        // and not used: otherwise the compiler would keep the registers of `rows` up to here.
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

// The jobs of a launch, each with `groups` groups.
template <class Rules>
JobTilesFor<Rules> job_tiles(const ForwardArgs& args, int groups) {
    static_assert(Rules::kTileKeys % kGroupRows == 0);
    const auto tiles = [](int64_t keys) { return std::max<int64_t>(1, tiles_of<Rules>(keys)); };
    const int64_t jobs = jobs_for(args.queries, groups);
    const auto last = static_cast<unsigned>(tiles(args.sight.of(args.queries - 1)));
    if (args.sight.more == 0) return {Divisor(static_cast<uint32_t>(jobs)), last, static_cast<int>(last), 0};
    // The number of keys that the first job's last row sees, or would see if it is below 1.
    const int64_t seen = args.sight.first + (groups - missing_groups(args.queries, groups)) * kGroupRows - 1;
    const int64_t first = seen > 0 ? (seen + kGroupRows - 1) / kGroupRows : -(-seen / kGroupRows);
    return {Divisor(static_cast<uint32_t>(jobs)), last, static_cast<int>(first), groups};
}

// With at most `most_blocks` blocks. If these are fewer than the jobs, the scratch memory has space for the handover
// behind the digits.
template <class T>
void launch_wgmma(const ForwardArgs& args, int64_t most_blocks, cudaStream_t stream) {
    constexpr size_t kBytes = sizeof(BlockMemory<T>);
    static_assert(kBytes <= 227 * 1024, "what Hopper gives a block, all of which fixed16 takes at d = 128");
    const auto kernel = wgmma_kernel<T>;
    HW4_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const auto shares = SharesOf<JobTilesFor<typename T::Rules>>::of(
        args.units, job_tiles<typename T::Rules>(args, T::kGroups), most_blocks);
    const unsigned blocks = shares.blocks.number();
    const bool hands_over = shares.are_cut();
    const size_t places = handover_places<T>(blocks);
    const Prepared prepared = launch_prepare<typename T::Rules>(
        args, WorkOf<T>::kFacts, hands_over ? Handover<T>::cleared_bytes(places) : 0, all_before(args), stream);
    launch_early("launch of wgmma_kernel", kernel, blocks, T::kThreads, kBytes, stream, args, prepared, shares,
                 hands_over ? Handover<T>(prepared.end, places) : Handover<T>());
}

// Takes the code for the launch's mask.
template <class T>
void launch_wgmma_or_masked(const Launch& launch, int64_t most_blocks, cudaStream_t stream) {
    const ForwardArgs args = forward_args(launch);
    if (launch.problem.mask == Mask::none) return launch_wgmma<T>(args, most_blocks, stream);
    return launch_wgmma<typename T::Masked>(args, most_blocks, stream);
}

// ---- In equal shares: as many blocks as the GPU runs at once

template <class T>
int64_t blocks_on(const Device& device) {
    return int64_t{device.multiprocessors} * T::kBlocks;
}

// Bytes that a launch needs behind the digits.
template <class T>
size_t handover_bytes(const Problem& problem, const Device& device) {
    const int64_t jobs = problem.units() * jobs_for(problem.queries, T::kGroups);
    const int64_t blocks = blocks_on<T>(device);
    return blocks < jobs ? Handover<T>::bytes(handover_places<T>(blocks)) : 0;
}

template <class T>
void launch_shares(const Launch& launch, cudaStream_t stream) {
    launch_wgmma_or_masked<T>(launch, blocks_on<T>(launch.device), stream);
}

template <class Joint, class Apart>
void launch_joint_or_apart(const Launch& launch, cudaStream_t stream) {
    const Problem& problem = launch.problem;
    if (takes_joint(problem.units(), problem.keys, launch.queries(), Joint::kGroups, launch.device.multiprocessors))
        launch_shares<Joint>(launch, stream);
    else
        launch_shares<Apart>(launch, stream);
}

} // namespace hw4::gpu::fixed_point
