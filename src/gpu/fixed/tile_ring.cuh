// The tiles of K and V on their way through a block: copied in the background to a ring of stages in shared memory,
// some time before all groups of the block need them, one tile after the other.
#pragma once

#include "group.cuh"
#include "wgmma.cuh"

namespace hw4::gpu::fixed_point {

// Tiles of a batch that a block needs, one after the other.
struct TileRun {
    const unsigned char* tile;
    unsigned count;
};

// A stage of the ring, and the parity of the round.
struct RingPosition {
    unsigned stage = 0;
    unsigned phase = 0;

    template <int kStages>
    __device__ __forceinline__ void advance() {
        const bool last = stage + 1 == kStages;
        stage = last ? 0 : stage + 1;
        phase ^= last ? 1 : 0;
    }
};

// Which tiles are to be fetched. One thread's; in shared memory, where it takes no registers of others.
struct FetchState {
    TileRun run;     // what is left of the one that is being fetched
    TileRun next;    // the one after it, once it is known
    RingPosition to; // where the next tile goes
    unsigned unused; // tiles that were fetched and had not yet their turn
};

// A block's shared memory.
template <class T>
struct BlockMemory {
    static constexpr int kStage = (TileLayout<T::kDim>::kBytes + 1023) / 1024 * 1024;

    uint64_t filled[T::kStages];
    uint64_t released[T::kStages]; // by all warps
    FetchState fetching;
    int64_t share; // of all shares, the block's
    alignas(1024) unsigned char tiles[T::kStages][kStage];
    Queries<T::kDim> queries[T::kGroups];
};

// What one thread of the block does for all: it has tiles copied.
template <class T>
struct TileFetcher {
    using Layout = TileLayout<T::kDim>;
    BlockMemory<T>& memory;

    __device__ void start(const TileRun& first) const {
        for (unsigned i = 0; i < T::kStages; ++i) {
            init_barrier(&memory.filled[i], 1);
            init_barrier(&memory.released[i], T::kThreads / 32);
        }
        publish_to_async();
        memory.fetching = {{nullptr, 0}, first, {}, 0};
    }

    // Before the first tile of a run has its turn: says what will follow that run.
    __device__ void announce(const TileRun& next) const {
        fetch_ahead(); // of the run itself, which is then no longer the next
        memory.fetching.next = next;
        fetch_ahead();
    }

    // While a tile is being used: a later one is fetched.
    __device__ __forceinline__ void refill() const {
        --memory.fetching.unused;
        fetch();
    }

private:
    __device__ void fetch_ahead() const {
        for (bool more = true; more && memory.fetching.unused < T::kAhead;) more = fetch();
    }

    // The next tile, into a stage that all have left or are about to leave; false when there is none.
    __device__ __forceinline__ bool fetch() const {
        FetchState& state = memory.fetching;
        if (state.run.count == 0) {
            if (state.next.count == 0) return false;
            state.run = state.next;
            state.next.count = 0;
        }
        const unsigned stage = state.to.stage;
        // A barrier that nobody has used yet passes for one that has just ended its round.
        wait_for_phase(&memory.released[stage], static_cast<int>(state.to.phase ^ 1));
        expect_bytes(&memory.filled[stage], Layout::kBytes);
        copy_bytes(memory.tiles[stage], state.run.tile, Layout::kBytes, &memory.filled[stage]);
        state.run.tile += Layout::kStride;
        --state.run.count;
        ++state.unused;
        state.to.template advance<T::kStages>();
        return true;
    }
};

// The tiles of a block's share as a group goes through them.
template <class T>
struct TileRing {
    BlockMemory<T>& memory;
    RingPosition at;

    __device__ __forceinline__ void wait() const {
        wait_for_phase(&memory.filled[at.stage], static_cast<int>(at.phase));
    }

    // By every warp, whose lanes have all read what they need.
    __device__ __forceinline__ void release() const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&memory.released[at.stage]);
    }

    __device__ __forceinline__ void advance() { at.template advance<T::kStages>(); }
};

} // namespace hw4::gpu::fixed_point
