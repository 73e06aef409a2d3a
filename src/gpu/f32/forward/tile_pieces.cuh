// Which block computes which tiles. A block of query rows against all keys is a row of tiles; a piece is a part of it.
//
// WholeRows    Each block of the grid computes one row of tiles.
// DrawnPieces  The blocks fill the GPU once and draw pieces from a queue until none is left: whole rows first, then two
//              rows for each block in pieces: first the greater part of each of these rows, then most of the rest of
//              each, and so on. So all blocks end within a piece of a few tiles of each other, for any number of rows
//              and however much some multiprocessors are slower than others. The contract adds keys in order: a piece
//              that does not begin at key 0 continues from registers stored in scratch memory. The block that stores
//              them drew earlier, so it has started, and it waits only for earlier ones: no block waits for ever. For
//              that, a block that has drawn its next piece must store the state of its last one before it waits. With
//              few rows there are no pieces, and at most a block for each row (tile_queue.h).
//
// Under a mask a row of tiles ends with the last key that one of its query rows sees, and has at least one tile. It
// begins with the tile of the first key that one of them sees. Long rows come first: a multiprocessor is done when its
// last block is.
#pragma once

#include "src/gpu/common/handover.cuh"
#include "src/gpu/f32/forward/tile_queue.h"
#include "src/gpu/f32/forward/tile_weights.cuh"

namespace hw4::gpu {

struct Piece {
    unsigned row; // of tiles
    uint32_t unit;
    int first_row;
    int first_key;
    int end_key;
    bool is_last; // of its row of tiles
};

template <class T>
__device__ __forceinline__ unsigned tiles_in_row(const ForwardArgs& args) {
    return static_cast<unsigned>((args.keys + T::kKeys - 1) / T::kKeys);
}

// Tiles first to end of a row of tiles.
template <class T>
__device__ __forceinline__ Piece piece_of(const ForwardArgs& args, unsigned row, unsigned first, unsigned end) {
    const auto blocks = static_cast<unsigned>(row_blocks_of<T>(args));
    const auto keys = static_cast<int>(args.keys);
    const int end_key = min(static_cast<int>(end) * T::kKeys, keys);
    return {row,     row / blocks,   static_cast<int>(row % blocks) * T::kRows, static_cast<int>(first) * T::kKeys,
            end_key, end_key == keys};
}

// All tiles of a row of tiles under a mask. The first rows are the last query rows of all units, which are the longest.
template <class T, View kView>
__device__ __forceinline__ Piece masked_row(const ForwardArgs& args, unsigned row) {
    const auto blocks = static_cast<unsigned>(row_blocks_of<T>(args));
    const int first_row = static_cast<int>(blocks - 1 - row / args.units) * T::kRows;
    const int first_key =
        kView == View::window ? static_cast<int>(args.sight.from(first_row)) / T::kKeys * T::kKeys : 0;
    const int end_key = max(static_cast<int>(seen_by_block<T>(args, first_row)), 1);
    return {row, row % args.units, first_row, first_key, end_key, true};
}

// The keys of a tile that the block's rows see, when the piece has `keys` keys to go.
template <class T, View kView>
__device__ __forceinline__ TileSight<T, kView> tile_sight(const ForwardArgs& args, const Piece& piece, int keys) {
    return {static_cast<int>(args.sight.first) + piece.first_row - (piece.end_key - keys),
            static_cast<unsigned>(args.sight.window)};
}

// How a team measures the weights of its rows.
enum class Measure {
    undecided,  // no tile is done yet
    by_zero,    // M is 0 for all rows, and the clamp does nothing
    by_the_row, // against each row's own reference (row_references.cuh)
};

// The state of a thread's rows between two tiles, except their sums.
template <class T>
struct Running {
    float total[kRowsPerThread][T::kCT];
    Measure measure;
};

// The shared memory of DrawnPieces.
struct Draws {
    Queue queue;
    unsigned drawn; // the piece to do
};

template <class T>
class WholeRows {
public:
    static constexpr bool kDrawn = false;

    __device__ WholeRows(const ForwardArgs&, Draws&) {}

    __device__ __forceinline__ bool any() const { return !done_; }
    __device__ __forceinline__ Piece piece(const ForwardArgs& args) const {
        unsigned block;
        asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block)); // read again, not kept in a register over the loop
        return piece_of<T>(args, block, 0, tiles_in_row<T>(args));
    }
    __device__ __forceinline__ void draw(const ForwardArgs&) { done_ = true; }
    __device__ __forceinline__ void go_on(Running<T>&, RowSums&, Reference&, const ForwardArgs&, const Piece&) const {}
    __device__ __forceinline__ void leave(const Running<T>&, const RowSums&, const Reference&, const ForwardArgs&,
                                          const Piece&) const {}

private:
    bool done_ = false;
};

// All state of a thread's rows, number after number, and the reference of one row of its team.
template <class Totals, class Sums, class RowReference>
struct Carried {
    Totals& running;
    Sums& sums;
    RowReference& reference;

    template <class Visit>
    __device__ __forceinline__ void visit(const Visit& each) const {
#pragma unroll
        for (int i = 0; i < kRowsPerThread; ++i) {
#pragma unroll
            for (auto& total : running.total[i]) each(total);
            each(sums.lane[i]);
        }
        each(reference.M);
        each(reference.origin);
        each(reference.bias);
        each(reference.floor);
        each(reference.raise_above);
    }
};

template <class T, View kView>
class DrawnPieces {
public:
    static constexpr bool kDrawn = true;
    // A place for each cut row, with the number of its tiles that are done; the counter is the number of pieces drawn.
    using Left = HandingOn<kRowsPerThread*(T::kCT + 1) + sizeof(Reference) / sizeof(float), T::kThreads>;

    __device__ DrawnPieces(const ForwardArgs& args, Draws& draws) : draws_(draws) {
        const auto rows = static_cast<unsigned>(args.units * row_blocks_of<T>(args));
        if (threadIdx.x == 0) fill(draws.queue, rows, tiles_in_row<T>(args), gridDim.x, kView == View::all);
        draw(args);
    }

    // Whether there is a piece to do, and the piece.
    __device__ __forceinline__ bool any() const { return draws_.drawn < draws_.queue.length(); }
    __device__ __forceinline__ Piece piece(const ForwardArgs& args) const {
        const volatile Draws& draws = draws_; // not kept in registers over the loop
        const unsigned drawn = draws.drawn;
        if (kView != View::all) return masked_row<T, kView>(args, drawn);
        if (drawn < draws.queue.whole) return piece_of<T>(args, drawn, 0, tiles_in_row<T>(args));
        const unsigned part = (drawn - draws.queue.whole) / draws.queue.cut;
        const unsigned row = draws.queue.whole + (drawn - draws.queue.whole) % draws.queue.cut;
        return piece_of<T>(args, row, part == 0 ? 0 : draws.queue.ends[part - 1], draws.queue.ends[part]);
    }
    __device__ __forceinline__ void draw(const ForwardArgs& args) {
        __syncthreads(); // all threads have read the previous piece
        if (threadIdx.x == 0) draws_.drawn = left(args).count();
        __syncthreads();
    }

    // Loads the registers that the previous piece of the same row stored.
    __device__ __forceinline__ void go_on(Running<T>& running, RowSums& sums, Reference& reference,
                                          const ForwardArgs& args, const Piece& piece) const {
        constexpr unsigned kPause = 100;
        left(args).template take<kPause>(Carried<Running<T>, RowSums, Reference>{running, sums, reference},
                                         cut_row(piece), static_cast<unsigned>(piece.first_key / T::kKeys), threadIdx.x,
                                         [] { __syncthreads(); });
    }

    __device__ __forceinline__ void leave(const Running<T>& running, const RowSums& sums, const Reference& reference,
                                          const ForwardArgs& args, const Piece& piece) const {
        left(args).leave(Carried<const Running<T>, const RowSums, const Reference>{running, sums, reference},
                         cut_row(piece), static_cast<unsigned>(piece.end_key / T::kKeys), threadIdx.x,
                         [] { __syncthreads(); });
    }

private:
    __device__ __forceinline__ unsigned cut_row(const Piece& piece) const { return piece.row - draws_.queue.whole; }
    __device__ __forceinline__ Left left(const ForwardArgs& args) const { return {args.scratch, draws_.queue.cut}; }

    Draws& draws_;
};

} // namespace hw4::gpu
