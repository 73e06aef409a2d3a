// The sizes of a block of split_keys for an element, d and a number of rows, and its shared memory.
#pragma once

#include "src/gpu/f32/forward/split_share.cuh"

namespace hw4::gpu::split {

// Parts of units, in the order in which a block computes them.
enum class Part {
    handed_over, // the beginning of the unit that the next block continues
    kept,        // a unit that began earlier: the sums of each segment are stored
    whole,       // a whole unit
    taken_over,  // the end of the unit that the previous block began
    striped,     // a unit that several blocks share
    none
};

// Segments [first, end) of a batch, for one of its units.
struct Work {
    Part part;
    Unit unit;
    int first, end;
    int64_t line; // where the batch's first segment would be in the line of all segments
};

template <class E_, int kDim_, int kRows_>
struct Tile {
    using E = E_;
    static constexpr int kDim = kDim_;
    static constexpr int kRows = kRows_;
    static constexpr int kMostWarps = kRows == 1 ? 16 : 12;         // of a block
    static constexpr int kPiece = 16 / static_cast<int>(sizeof(E)); // elements of 16 bytes
    // Scores: a lane has kOwnKeys keys and one chunk of columns, so that a warp has a group of keys at once.
    static constexpr int kChunks = kDim / kScoreColumns;
    static constexpr int kKeyLanes = kWarpSize / kChunks;
    static constexpr int kOwnKeys = sizeof(E) == 4 ? 2 : 4;
    static constexpr int kGroupKeys = kKeyLanes * kOwnKeys;
    static constexpr int kWide = kRows < 4 ? kRows : 4; // rows whose scores change lanes together
    static constexpr int kScores = kWide * kOwnKeys * kWarpSize;
    // Values: a lane's columns are in kSpans spans of kSpanColumns.
    static constexpr int kLaneColumns = kDim / kWarpSize;
    static constexpr int kSpanColumns = kLaneColumns < kPiece ? kLaneColumns : kPiece;
    static constexpr int kSpans = kLaneColumns / kSpanColumns;
    // Running sums: a lane has some of the kSums.
    static constexpr int kSums = kRows * kSumLanes;
    static constexpr int kLaneSums = (kSums + kWarpSize - 1) / kWarpSize;
    // Copies: a part of a segment's keys, at most the least page.
    static constexpr int kFitting = 4096 / (kDim * static_cast<int>(sizeof(E)));
    static constexpr int kPartKeys = kFitting < 8 ? 8 : kFitting > 16 ? 16 : kFitting;
    static constexpr int kParts = kSegmentKeys / kPartKeys;
    static constexpr int kGroupParts = kGroupKeys / kPartKeys;
    static constexpr int kRowPieces = kDim / kPiece;
    static constexpr int kRowsTogether = kRowPieces < kWarpSize ? kWarpSize / kRowPieces : 1; // that a warp copies

    // What weights need of a row's reference, and the score that raises it.
    struct alignas(16) Facts {
        float origin, floor, bias, above;
    };
    struct Row {
        Reference reference;
        float first_M, first_origin; // the reference that the unit's first tile gives
        float first_above;           // a score above this raises first_M and first_origin
        int seen;                    // keys; a window keeps the last of them
        bool changed;                // whether the reference changed after the first tile
    };
    struct State {
        alignas(16) float q[kRows][kScoreColumns / 4][kChunks][4]; // a row's pieces of four, chunk by chunk
        alignas(16) float totals[kRows][kDim];
        float running[kRows][kSumLanes];
        Facts facts[kRows];
        Row rows[kRows];
        float inverse[kRows];
        int least_seen, most_seen; // of the rows that exist
        int first_tile;            // of the unit, counted from the batch's first key
        int settled;               // segments whose references are known, from the work's first on
        int added;                 // segments that are in the totals
        Stripe stripe;
        bool repeat; // the striped unit has to be computed again
        Share share;
        Work works[2]; // the present one and the next
    };
    static constexpr int kStage = kPartKeys * kDim; // elements
    static constexpr int kLargestBlock = 227 * 1024;
    static constexpr int kWeights = kRows * kSegmentKeys;
    static constexpr int kRoom = ((kLargestBlock - static_cast<int>(sizeof(State))) / kMostWarps -
                                  4 * (kScores > kWeights ? kScores : kWeights)) /
                                 (kStage * static_cast<int>(sizeof(E)));
    static constexpr int kStages = kRoom > 6 ? 6 : kRoom;
    static_assert(kStages >= kGroupParts && kStages >= 2);

    struct Warp {
        alignas(128) E stages[kStages][kStage];
        // Scores of a group, [chunk][key][row of kWide], and then the weights of the segment, [row][key].
        float scores[kScores > kWeights ? kScores : kWeights];
    };

    // A block has as many warps as fit, and their memory before the state.
    static size_t bytes(int warps) { return static_cast<size_t>(warps) * sizeof(Warp) + sizeof(State); }
    static int warps(size_t shared_bytes) {
        const size_t fitting = shared_bytes < bytes(1) ? 0 : (shared_bytes - sizeof(State)) / sizeof(Warp);
        return fitting < 1 ? 1 : fitting > kMostWarps ? kMostWarps : static_cast<int>(fitting);
    }
};

} // namespace hw4::gpu::split
