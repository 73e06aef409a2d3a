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

// Which tiles are to be fetched. One thread's; in shared memory, where it takes no registers of others.
struct FetchState {
    TileRun run;     // what is left of the one that is being fetched
    TileRun next;    // the one after it, once it is known
    unsigned stage;  // where the next tile goes
    unsigned phase;  // changes with every round
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

// The tiles of a block's share, one after the other through the stages.
template <class T>
struct TileRing {
    using Layout = TileLayout<T::kDim>;
    BlockMemory<T>& memory;
    unsigned stage = 0; // of the tile whose turn it is
    unsigned phase = 0; // changes with every round

    // By one thread.
    __device__ void start(const TileRun& first) const {
        for (unsigned i = 0; i < T::kStages; ++i) {
            init_barrier(&memory.filled[i], 1);
            init_barrier(&memory.released[i], T::kThreads / 32);
        }
        publish_to_async();
        memory.fetching = {{nullptr, 0}, first, 0, 0, 0};
    }

    // By the same thread, before the first tile of a run has its turn: says what will follow that run.
    __device__ void announce(const TileRun& next) const {
        fetch_ahead(); // of the run itself, which is then no longer the next
        memory.fetching.next = next;
        fetch_ahead();
    }

    // While a tile is being used: a later one is fetched.
    __device__ __forceinline__ void refill() const {
        if (threadIdx.x == 0) {
            --memory.fetching.unused;
            fetch();
        }
    }

    __device__ __forceinline__ void wait() const { wait_for_phase(&memory.filled[stage], static_cast<int>(phase)); }

    // By every warp, whose lanes have all read what they need.
    __device__ __forceinline__ void release() const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&memory.released[stage]);
    }

    __device__ __forceinline__ void advance() {
        const bool last = stage + 1 == T::kStages;
        stage = last ? 0 : stage + 1;
        phase ^= last ? 1 : 0;
    }

private:
    __device__ void fetch_ahead() const {
        for (bool more = true; more && memory.fetching.unused < T::kAhead;) more = fetch();
    }

    // The next tile, into a stage that all will have left long ago; false when there is none.
    __device__ __forceinline__ bool fetch() const {
        FetchState& state = memory.fetching;
        if (state.run.count == 0) {
            if (state.next.count == 0) return false;
            state.run = state.next;
            state.next.count = 0;
        }
        const unsigned to = state.stage;
        // A barrier that nobody has used yet passes for one that has just ended its round.
        wait_for_phase(&memory.released[to], static_cast<int>(state.phase ^ 1));
        uint64_t* const filled = &memory.filled[to];
        expect_bytes(filled, Layout::kBytes);
        copy_bytes(memory.tiles[to], state.run.tile, Layout::kBytes, filled);
        state.run.tile += Layout::kStride;
        --state.run.count;
        ++state.unused;
        const bool last = to + 1 == T::kStages;
        state.stage = last ? 0 : to + 1;
        state.phase ^= last ? 1 : 0;
        return true;
    }
};

} // namespace hw4::gpu::fixed_point
