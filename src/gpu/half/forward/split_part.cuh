// A part of the keys of a few query rows, for the blocks of split_half.cu: its rows and keys, and how a warp goes
// through its tiles.
#pragma once

#include <climits>

#include "src/gpu/half/forward/mma_rows.cuh"
#include "src/gpu/half/forward/output_rows.cuh"
#include "src/gpu/half/forward/split_parts.h"

namespace hw4::gpu::half_forward {

constexpr int kSplitWarps = kMmaThreads / kWarpSize;

template <class Number_, int kDim_, int kRowTiles_, int kStages_ = kDim_ == 256 ? 2 : 3,
          int kBlocks_ = kDim_ == 256 ? 1 : 2>
struct SplitTile {
    using Number = Number_;
    static constexpr int kDim = kDim_; // smaller d have columns of zeros
    static constexpr int kRowTiles = kRowTiles_;
    static constexpr int kRows = 16 * kRowTiles;
    static constexpr int kKeys = kDim == 64 ? 32 : 16;
    static constexpr int kStages = kStages_;
    static constexpr int kBlocks = kBlocks_; // per multiprocessor

    // Rows without gaps: where rows lie 16 bytes further apart, against bank conflicts, the copies of a row come in
    // half as many sectors again from the L2 cache, and the GPU's memory is read 7 % slower. Instead, a row's pieces of
    // 16 bytes change places, as piece_at() says.
    struct Stage {
        alignas(128) uint16_t keys[kKeys][kDim];
        alignas(128) uint16_t values[kKeys][kDim];
    };
    // The warps' sums of a part: with rows this far apart, stores of pairs have no bank conflicts.
    struct Merge {
        alignas(16) float sums[kSplitWarps][kRows][kDim + 8];
        float top[kSplitWarps][kRows];
        float sum[kSplitWarps][kRows];
    };
    union Memory {
        Stage stages[kSplitWarps][kStages];
        Merge merge;
    };
};

struct SplitArgs {
    Args half;
    const int32_t* lengths; // [batch]; null: all have half.keys
    PageTable pages;        // if K and V are in pages
    int page_shift;         // the logarithm of a page's keys
    float* sums;            // [row][part][kDim], rows as [batch][head][query]
    float2* tops;           // [row][part]: the largest score, the sum of the weights
    unsigned units;         // blocks of rows
    int row_blocks;         // per head of K and V
    int group;              // heads that share it
    int parts;              // in half.keys
    int slots;              // a block takes every slots-th part
};

// A query row, and the number of keys it sees.
struct SplitRow {
    int64_t batch, head, query;
    int seen;
};

// Rows of a head of K and V count its heads of queries one after the other.
__device__ __forceinline__ SplitRow row_at(const SplitArgs& args, int64_t batch, int64_t kv_head, int row) {
    const Args& half = args.half;
    const int queries = static_cast<int>(half.queries);
    const int all = static_cast<int>(half.keys);
    const int keys = args.lengths == nullptr ? all : min(max(args.lengths[batch], 0), all);
    const int query = row % queries;
    const int seen = half.sight.more == 0 ? keys : keys - all + static_cast<int>(half.sight.first) + query;
    return {batch, kv_head * args.group + row / queries, query, max(seen, 0)};
}

// Rows of a block that share a head of K and V.
struct SplitUnit {
    int64_t batch, kv_head;
    int first; // row
    int rows;
    int seen; // most keys that any of the rows sees

    __device__ SplitUnit(const SplitArgs& args, unsigned index, int most_rows) {
        const unsigned head = index / static_cast<unsigned>(args.row_blocks);
        batch = head / static_cast<unsigned>(args.half.kv_heads);
        kv_head = head % static_cast<unsigned>(args.half.kv_heads);
        first = static_cast<int>(index % static_cast<unsigned>(args.row_blocks)) * most_rows;
        const int queries = static_cast<int>(args.half.queries);
        rows = min(most_rows, args.group * queries - first);
        const int last = first + rows - 1;
        seen = row_at(args, batch, kv_head, first / queries == last / queries ? last : queries - 1).seen;
    }
};

// A warp going through its tiles of a part. Each 16 keys of a tile are in one page, where there are pages.
template <class T>
class SplitWarp {
public:
    using Number = typename T::Number;

    __device__ SplitWarp(const SplitArgs& args, const SplitUnit& unit) : args_(args), unit_(unit) {
        const Operand& k = args.half.k;
        const Operand& v = args.half.v;
        const int64_t batch = paged() ? 0 : unit.batch;
        keys_ = static_cast<const uint16_t*>(k.at) + batch * k.batch + unit.kv_head * k.head;
        values_ = static_cast<const uint16_t*>(v.at) + batch * v.batch + unit.kv_head * v.head;
    }

    // Starts to copy the first keys of a part, from `begin` to before `end`, to the warp's ring.
    __device__ void begin_copies(typename T::Stage (&ring)[T::kStages], int begin, int end) {
        const int first = first_tile(begin);
        find_pages(first, end);
#pragma unroll 1
        for (int stage = 0; stage < T::kStages; ++stage) copy(ring[stage], first + stage * kStep, end);
    }

    __device__ void load_queries() {
#pragma unroll
        for (int i = 0; i < 2 * T::kRowTiles; ++i) load_query(i / 2, i % 2);
        least_seen_ = __reduce_min_sync(kAllLanes, least_seen_);
    }

    // Computes the part whose copies began.
    __device__ void run(typename T::Stage (&ring)[T::kStages], int begin, int end) {
#pragma unroll
        for (int tile = 0; tile < T::kRowTiles; ++tile) {
            rows[tile] = RunningRows();
#pragma unroll
            for (int i = 0; i < T::kDim / 2; ++i) o[tile][i] = 0;
        }
        int stage = 0;
        for (int key = first_tile(begin); key < end; key += kStep) {
            wait_for_copies<T::kStages - 1>();
            __syncwarp(); // waits for the other lanes' copies, too
            compute(ring[stage], key);
            __syncwarp(); // all lanes are done with the tile
            copy(ring[stage], key + T::kStages * kStep, end);
            stage = stage + 1 == T::kStages ? 0 : stage + 1;
        }
        finish_copies();
    }

    RunningRows rows[T::kRowTiles];
    float o[T::kRowTiles][T::kDim / 2];

private:
    static constexpr int kStep = kSplitWarps * T::kKeys; // from one of the warp's tiles to the next
    static constexpr int kPartKeys = 16;                 // of a tile: they are in one page

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % kWarpSize); }
    // Where the piece of a row that begins at `column` lies: eight rows' pieces of one column are in different banks.
    static __device__ __forceinline__ int piece_at(int row, int column) { return column ^ row % 8 * 8; }
    static __device__ __forceinline__ int first_tile(int begin) {
        return begin + static_cast<int>(threadIdx.x / kWarpSize) * T::kKeys;
    }

    __device__ __forceinline__ bool paged() const { return args_.pages.at != nullptr; }

    // Loads a lane's words of a query row, as the left operand of mma.sync, and the number of keys it sees from the
    // lane's first column on. Rows that do not exist are zeros and see what the first one sees.
    __device__ __forceinline__ void load_query(int tile, int half) {
        const int row = tile * 16 + half * 8 + lane() / 4;
        const bool exists = row < unit_.rows;
        const SplitRow at = row_at(args_, unit_.batch, unit_.kv_head, unit_.first + (exists ? row : 0));
        seen_[tile][half] = at.seen - lane() % 4 * 2;
        least_seen_ = min(least_seen_, at.seen);
        const Operand& q = args_.half.q;
        const uint16_t* const from =
            static_cast<const uint16_t*>(q.at) + at.batch * q.batch + at.head * q.head + at.query * q.row;
#pragma unroll
        for (int column = 0; column < T::kDim; column += 8) {
            const bool there = exists && column < args_.half.dim;
            q_[tile][column / 16][column / 8 % 2 * 2 + half] =
                there ? *reinterpret_cast<const uint32_t*>(from + column + lane() % 4 * 2) : 0u;
        }
    }

    // Lane i looks up the page of part i of the tile from `first` on.
    __device__ __forceinline__ void find_pages(int first, int end) {
        const int key = first + lane() * kPartKeys;
        page_ = 0;
        if (!paged() || lane() >= T::kKeys / kPartKeys || key >= end) return;
        const int page = __ldg(args_.pages.at + unit_.batch * args_.pages.columns + (key >> args_.page_shift));
        if (args_.pages.has(page)) page_ = page;
    }

    // Where the rows of a part of the next tile lie in K or V.
    __device__ __forceinline__ const uint16_t* part_at(const Operand& operand, const uint16_t* all, int first,
                                                       int part) const {
        if (!paged()) return all + (first + part) * operand.row;
        const int64_t page = __shfl_sync(kAllLanes, page_, part / kPartKeys);
        return all + page * operand.batch + ((first + part) & ((1 << args_.page_shift) - 1)) * operand.row;
    }

    // Copies a tile from `first` on; keys from `end` on are zeros. The pages of the next tile are looked up already.
    __device__ __forceinline__ void copy(typename T::Stage& to, int first, int end) {
        constexpr int kPieces = T::kDim / 8;
        constexpr int kTogether = kWarpSize / kPieces; // rows
        const int column = lane() % kPieces * 8;
        if (first < end) {
            const Operand& k = args_.half.k;
            const Operand& v = args_.half.v;
            const bool whole = first + T::kKeys <= end && args_.half.dim == T::kDim;
#pragma unroll
            for (int part = 0; part < T::kKeys; part += kPartKeys) {
                const int own = lane() / kPieces; // row
                const uint16_t* keys = part_at(k, keys_, first, part) + own * k.row + column;
                const uint16_t* values = part_at(v, values_, first, part) + own * v.row + column;
                if (whole) {
#pragma unroll
                    for (int row = 0; row < kPartKeys; row += kTogether) {
                        copy_async(&to.keys[part + row + own][piece_at(row + own, column)], keys + row * k.row, true,
                                   policy_);
                        copy_async(&to.values[part + row + own][piece_at(row + own, column)], values + row * v.row,
                                   true, policy_);
                    }
                } else {
#pragma unroll 1
                    for (int row = own; row < kPartKeys; row += kTogether) {
                        const bool there = first + part + row < end && column < args_.half.dim;
                        copy_async(&to.keys[part + row][piece_at(row, column)], keys, there, policy_);
                        copy_async(&to.values[part + row][piece_at(row, column)], values, there, policy_);
                        keys += kTogether * k.row;
                        values += kTogether * v.row;
                    }
                }
            }
            find_pages(first + kStep, end);
        }
        end_group_of_copies();
    }

    __device__ __forceinline__ void compute(const typename T::Stage& stage, int first) {
        float s[T::kRowTiles][T::kKeys / 2];
#pragma unroll
        for (int tile = 0; tile < T::kRowTiles; ++tile)
#pragma unroll
            for (int i = 0; i < T::kKeys / 2; ++i) s[tile][i] = 0;
#pragma unroll
        for (int column = 0; column < T::kDim; column += 16)
#pragma unroll
            for (int key = 0; key < T::kKeys; key += 16) {
                uint32_t b[4];
                const int row = lane() % 8 + lane() / 16 * 8;
                load_matrices<false>(b, &stage.keys[key + row][piece_at(row, column + lane() / 8 % 2 * 8)]);
#pragma unroll
                for (int tile = 0; tile < T::kRowTiles; ++tile) {
                    Number::multiply(s[tile] + key / 2, q_[tile][column / 16], b[0], b[1]);
                    Number::multiply(s[tile] + key / 2 + 4, q_[tile][column / 16], b[2], b[3]);
                }
            }
        uint32_t p[T::kRowTiles][T::kKeys / 16][4];
#pragma unroll
        for (int tile = 0; tile < T::kRowTiles; ++tile) {
            if (first + T::kKeys > least_seen_) hide_unseen(s[tile], seen_[tile][0] - first, seen_[tile][1] - first);
            float factor[2];
            const bool raised = rows[tile].weigh(s[tile], args_.half.log2_scale, factor);
            if (__any_sync(kAllLanes, raised)) multiply_rows(o[tile], factor);
            pack_weights<Number>(p[tile], s[tile]);
        }
#pragma unroll
        for (int key = 0; key < T::kKeys; key += 16)
#pragma unroll
            for (int column = 0; column < T::kDim; column += 16) {
                uint32_t b[4];
                const int row = lane() % 16;
                load_matrices<true>(b, &stage.values[key + row][piece_at(row, column + lane() / 16 * 8)]);
#pragma unroll
                for (int tile = 0; tile < T::kRowTiles; ++tile) {
                    Number::multiply(o[tile] + column / 2, p[tile][key / 16], b[0], b[1]);
                    Number::multiply(o[tile] + column / 2 + 4, p[tile][key / 16], b[2], b[3]);
                }
            }
    }

    const SplitArgs& args_;
    const SplitUnit& unit_;
    const uint16_t* keys_;
    const uint16_t* values_;
    // Usual where other blocks read the same keys.
    const uint64_t policy_ = cache_policy(args_.row_blocks == 1 ? Evict::first : Evict::usual);
    int page_ = 0; // in lane i: the page of part i of the tile that is copied next
    uint32_t q_[T::kRowTiles][T::kDim / 16][4];
    int seen_[T::kRowTiles][2];
    int least_seen_ = INT_MAX; // of all rows
};

} // namespace hw4::gpu::half_forward
