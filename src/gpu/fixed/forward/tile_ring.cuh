// The tiles of K and V on their way through a block: copied in the background to a ring of stages in shared memory,
// some time before all groups of the block need them, one tile after the other.
//
// What is done for every tile is done with numbers that a warp's lanes share, kept in the registers that they share:
// kept for each lane they would take registers that are not there, kept in memory they would make the warp that has
// tiles copied the slowest, for which all others wait.
#pragma once

#include <cstddef>

#include "src/gpu/common/shared_memory.cuh"
#include "src/gpu/fixed/forward/queries.cuh"

namespace hw4::gpu::fixed_point {

// Tiles that a block needs, one after the other.
struct TileRun {
    uint32_t first; // of all heads' tiles, which are fewer than 2^32: each takes kilobytes
    uint32_t count;
};

// A block's shared memory.
template <class T>
struct BlockMemory {
    using Layout = typename T::Layout;
    static constexpr int kStage = ((Layout::kScalesApart ? Layout::kScales : Layout::kBytes) + 1023) / 1024 * 1024;

    uint64_t filled[T::kStages];
    uint64_t released[T::kStages]; // by all threads
    TileRun next_run;              // to be fetched after the one that is being fetched, once it is known
    uint32_t share;                // of all shares, the block's
    TileScales scales[Layout::kScalesApart ? T::kStages : 1];
    alignas(1024) unsigned char tiles[T::kStages][kStage];
    Queries<typename T::Rules, T::kDim> queries[T::kGroups];
};

// Where things are in a block's shared memory.
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

// What one warp of the block does for all: it has tiles copied. Other warps have one too, and leave it alone.
template <class T>
class TileFetcher {
    static_assert(1 <= T::kAhead && T::kAhead < T::kStages); // RingPosition::plus() goes round once

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

    // Before the first tile of a run has its turn: `next` says what will follow that run, once it can be fetched; the
    // run's own first tile has been by then.
    template <class Next>
    __device__ void announce(RingPosition turn, const Next& next) {
        fetch_ahead(turn); // of the run itself, which is then no longer the next
        const TileRun run = next();
        if (is_elected()) memory_.next_run = run;
        __syncwarp();
        fetch_ahead(turn);
    }

    // While a tile, whose turn it is, is being used: a later one is fetched.
    __device__ __forceinline__ void refill(RingPosition turn) {
        if (!fetch(turn)) --unused_;
    }

private:
    using Layout = typename T::Layout;

    BlockMemory<T>& memory_;
    RingAddresses<T> at_;
    const unsigned char* tiles_;
    TileRun run_{0, 0};   // what is left of the one that is being fetched
    uint32_t unused_ = 0; // tiles that were fetched, from the one whose turn it is on

    __device__ void fetch_ahead(RingPosition turn) {
        for (; unused_ < T::kAhead; ++unused_)
            if (!fetch(turn)) return;
    }

    // The next tile, into a stage that all have left or are about to leave; false when there is none.
    __device__ __forceinline__ bool fetch(RingPosition turn) {
        if (__builtin_expect(run_.count == 0, 0) && !take_next_run()) return false;
        const RingPosition to = turn.plus<T::kStages>(unused_);
        // A barrier that was not used yet passes for one that has just ended its round.
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

// The tiles of a block's share as a group goes through them.
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

} // namespace hw4::gpu::fixed_point
