// split_keys: few query rows against many keys, with the keys split among all blocks. The contract's sums do not depend
// on where the keys are split: a segment of 64 keys has sums of its own, and the totals add them in order.
// With kPaged, K and V are in pages: a segment has four parts of 16 keys, each in one page.
//
// Idea      Every block has an equal share of all segments (split_work.h). The block folds the segments of a unit that
//           begins in its share into totals. It stores the sums of each segment of a unit that began earlier;
//           fold_kernel adds them up afterwards, in order. The time is that of reading K and V once.
// Who       A block of four warps. Scores: a warp for each 32 columns, a lane for one or two keys. Weights: a warp for
//           each row. Output: a thread for one or two columns of some rows.
// Memory    K and V of a segment are stages of a ring that cp.async fills. Rows are 16 bytes further apart than they
//           are long, against bank conflicts. 16-bit elements are widened, exactly, when they are read.
// Reference A block does not know the reference of a unit that began earlier. It computes the scores of the first tile
//           and assumes that the reference has not changed since. If it has, a second launch computes the share
//           again, with the reference that follows from the tiles' largest scores; otherwise that launch ends at once.
// Order     The contract's. A factor of 1 multiplies exactly, so every fold has one.
// Limits    With 16-bit elements, four rows and more are limited by instructions, not by memory. With few units, time
//           passes between the launches, and the fold of one row's segments is one chain.
#pragma once

#include "src/gpu/f32/forward/split_share.cuh"

namespace hw4::gpu::split {

template <class E_, int kDim_, int kRows_>
struct Tile {
    using E = E_;
    static constexpr int kDim = kDim_;
    static constexpr int kRows = kRows_;
    static constexpr int kPiece = 16 / static_cast<int>(sizeof(E)); // elements of 16 bytes
    static constexpr int kPitch = kDim + kPiece;                    // elements
    static constexpr int kStage = kSegmentKeys * kPitch;
    static constexpr int kChunks = kDim / kScoreColumns;
    // Scores: warps for different columns, and for different keys where there are fewer chunks than warps.
    static constexpr int kChunkWarps = kChunks < kWarps ? kChunks : kWarps;
    static constexpr int kWarpChunks = kChunks / kChunkWarps;
    static constexpr int kLaneKeys = kSegmentKeys / kWarpSize * kChunkWarps / kWarps;
    // Output: a thread's columns and rows.
    static constexpr int kColumns = kDim == 64 ? 1 : 2;
    static constexpr int kColumnThreads = kDim / kColumns;
    static constexpr int kRowGroups = kRows < kThreads / kColumnThreads ? kRows : kThreads / kColumnThreads;
    static constexpr int kThreadRows = kRows / kRowGroups;
    // Weights: a warp's rows.
    static constexpr int kWarpRows = (kRows + kWarps - 1) / kWarps;

    static constexpr int kOther = static_cast<int>(sizeof(float)) * (kRows * kDim + kChunks * kRows * kSegmentKeys +
                                                                     kRows * kSegmentKeys + 4 * kRows) +
                                  160;
    static constexpr int kFitting = (72 * 1024 - kOther) / (kStage * static_cast<int>(sizeof(E)));
    static constexpr int kStages = kFitting < 2 ? 2 : kFitting > 6 ? 6 : kFitting;

    struct Memory {
        alignas(16) E stages[kStages][kStage];
        alignas(16) float q[kRows][kDim];
        alignas(16) float scores[kChunks][kRows][kSegmentKeys]; // of each chunk of columns
        alignas(16) float weights[kRows][kSegmentKeys];
        float raised[kRows];  // factor of o between the two tiles of the segment
        float rescale[kRows]; // factor of the totals before o is added
        float inverse[kRows];
        Share share;
        Unit whole;     // the next of the share's whole units
        int first_tile; // of the unit, counted from the batch's first key
    };
    static constexpr int kBlocks = static_cast<int>(226 * 1024 / (sizeof(Memory) + 1024));
};

// The state of a warp for one of its rows.
struct WarpRow {
    int seen; // keys; a window keeps the last of them
    Reference reference;
    float first_M, first_origin; // the reference that the unit's first tile gives
    float first_above;           // a score above this raises first_M and first_origin
    float lane_sum;              // in lanes 0, 4, ...: the eight running sums
    bool changed;                // whether the reference changed after the first tile

    // For a key after the last that the row sees, the difference is below 0 and wraps.
    __device__ __forceinline__ bool sees(int key, int window) const {
        return static_cast<unsigned>(seen - 1 - key) < static_cast<unsigned>(window);
    }
    __device__ __forceinline__ void keep_first(const Reference& first) {
        first_M = first.M;
        first_origin = first.origin;
        first_above = first.raise_above;
    }
};

template <class T, bool kPaged>
class SegmentBlock {
    using E = typename T::E;
    using Memory = typename T::Memory;

public:
    __device__ SegmentBlock(const Args& args, Memory& memory)
        : args_(args), memory_(memory), lane_(static_cast<int>(threadIdx.x) % kWarpSize),
          warp_(static_cast<int>(threadIdx.x) / kWarpSize), copied_row_(static_cast<int>(threadIdx.x) / kRowPieces),
          copied_column_(static_cast<int>(threadIdx.x) % kRowPieces * T::kPiece) {}

    // Computes the share of this block; or, if `again`, its first unit again, if the reference had changed before. All
    // parts of units use one loop, so that its code exists once.
    __device__ void run(bool again) {
        if (const Share found = find_share(args_, blockIdx.x, gridDim.x); threadIdx.x == 0) memory_.share = found;
        __syncthreads();
        const Share& share = memory_.share; // registers are scarce
        if (share.first >= share.end) return;
        const bool began_earlier = share.first > share.first_unit.first;
        if (again && (share.hands_over || !began_earlier || !has_changed_before(share))) return;
        const bool goes_on = share.end < share.all.segments && share.end_unit.first < share.end;
        const int64_t stop = goes_on ? share.end_unit.first : share.end; // of the whole units
        Unit& whole = memory_.whole;
        if (threadIdx.x == 0) whole = began_earlier ? unit_after(args_, share.first_unit) : share.first_unit;
        __syncthreads();
        Part part = again ? Part::kept : Part::handed_over;
        while (part != Part::none) {
            const Part now = part;
            Unit unit = share.first_unit;
            int64_t from = share.first;
            int64_t to = min(share.end, unit.first + unit.count);
            switch (now) {
            case Part::handed_over:
                part = Part::kept;
                if (!goes_on || share.end_unit.first < share.first) continue;
                unit = share.end_unit;
                from = unit.first;
                to = share.end;
                break;
            case Part::kept:
                part = again ? Part::none : Part::whole;
                if (!began_earlier || share.hands_over) continue;
                break;
            case Part::whole:
                if (whole.first >= stop) {
                    part = Part::taken_over;
                    continue;
                }
                unit = whole;
                from = unit.first;
                to = unit.first + unit.count;
                __syncthreads();
                if (threadIdx.x == 0) whole = unit_after(args_, unit);
                break;
            default:
                part = Part::none;
                if (!began_earlier || !share.hands_over) continue;
            }
            const int before = args_.first_key_of(unit.batch) / kSegmentKeys; // segments that no row sees
            const int first = before + static_cast<int>(from - unit.first);
            const int end = before + static_cast<int>(to - unit.first);
            begin_unit(unit, first, end, now == Part::kept && !again);
            if (now == Part::taken_over) take_over();
            if (now == Part::kept) again ? find_reference(share) : assume_reference();
            compute(first, end, now == Part::kept);
            if (now == Part::handed_over) {
                keep_totals();
                if (share.hands_over) hand_over();
            } else if (now == Part::kept) {
                keep_states(args_.scratch.last_states);
                if (!again) keep_changed(args_.scratch.changed_in_later);
            } else {
                write_output(unit);
            }
        }
    }

private:
    // Parts of units, in the order in which a block computes them.
    enum class Part {
        handed_over, // the beginning of the unit that the next block continues
        kept,        // a unit that began earlier: the sums of each segment are stored
        whole,       // a whole unit
        taken_over,  // the end of the unit that the previous block began
        none
    };

    // ---- Memory to shared memory

    // This thread's part of the rows of K or V that it copies.
    struct Source {
        const E* at;    // of the first key; with pages, of the first key of page 0
        int64_t stride; // elements, from one key to the next
        int64_t page;   // from one page to the next
    };
    static constexpr int kPartKeys = 16; // of a segment: they are in one page
    static constexpr int kParts = kSegmentKeys / kPartKeys;
    static constexpr int kRowPieces = T::kDim / T::kPiece;
    static constexpr int kRowsAtOnce = kThreads / kRowPieces;
    static_assert(kThreads % kRowPieces == 0 && kPartKeys % kRowsAtOnce == 0);

    __device__ __forceinline__ Source source_of(const Operand& operand, const Unit& unit) const {
        return {operand.template of<E>(kPaged ? 0 : unit.batch, unit.in_batch / args_.row_blocks) +
                    copied_row_ * operand.row + copied_column_,
                operand.row, operand.batch};
    }

    // Lane i looks up the page of part i of a segment, for K and V.
    __device__ __forceinline__ void find_pages(int first_key) {
        const int key = first_key + lane_ * kPartKeys;
        page_ = 0;
        if (!kPaged || lane_ >= kParts || key >= keys_) return;
        const int page = __ldg(args_.pages.at + batch_ * args_.pages.columns + (key >> args_.page_shift));
        if (args_.pages.has(page)) page_ = page;
    }

    // Copies the rows of a segment; `count` rows exist, the others become zeros.
    __device__ __forceinline__ void copy_segment(E* stage, const Source& source, int first_key, int count) const {
        const E* from = source.at + int64_t{first_key} * source.stride;
        E* to = stage + copied_row_ * T::kPitch + copied_column_;
        const int64_t step = kRowsAtOnce * source.stride;
        if constexpr (kPaged) return copy_parts(to, source, first_key, count);
        if (count >= kSegmentKeys && args_.dim == T::kDim) {
#pragma unroll
            for (int y = 0; y < kSegmentKeys; y += kRowsAtOnce, from += step) copy_async<16>(to + y * T::kPitch, from);
        } else {
#pragma unroll 1
            for (int y = 0; y < kSegmentKeys; y += kRowsAtOnce, from += step) {
                const bool there = copied_column_ < args_.dim && copied_row_ + y < count;
                copy_async<16>(to + y * T::kPitch, there ? from : args_.k.at, there);
            }
        }
    }

    // The same from the pages that find_pages() found.
    __device__ __forceinline__ void copy_parts(E* to, const Source& source, int first_key, int count) const {
        const int in_page = (first_key + lane_ * kPartKeys) & ((1 << args_.page_shift) - 1);
        const int64_t mine = page_ * source.page + in_page * source.stride;
        const int64_t step = kRowsAtOnce * source.stride;
        if (count >= kSegmentKeys && args_.dim == T::kDim) {
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                const E* from = source.at + __shfl_sync(kAllLanes, mine, part);
#pragma unroll
                for (int y = 0; y < kPartKeys; y += kRowsAtOnce, from += step)
                    copy_async<16>(to + (part * kPartKeys + y) * T::kPitch, from);
            }
        } else {
#pragma unroll 1
            for (int y = 0; y < kSegmentKeys; y += kRowsAtOnce) {
                const E* from = source.at + __shfl_sync(kAllLanes, mine, y / kPartKeys) + y % kPartKeys * source.stride;
                const bool there = copied_column_ < args_.dim && copied_row_ + y < count;
                copy_async<16>(to + y * T::kPitch, there ? from : args_.k.at, there);
            }
        }
    }

    // Item 2 i is K of the i-th segment, item 2 i + 1 is V.
    __device__ __forceinline__ void copy_item(int item, int items, int first_segment) {
        if (item < items) {
            const int key = (first_segment + item / 2) * kSegmentKeys;
            if (item % 2 == 0) find_pages(key);
            // Selected field by field: a choice between the two objects would keep them in local memory.
            const bool is_k = item % 2 == 0;
            const Source source{is_k ? k_.at : v_.at, is_k ? k_.stride : v_.stride, is_k ? k_.page : v_.page};
            copy_segment(memory_.stages[item % T::kStages], source, key, keys_ - key);
        }
        end_group_of_copies();
    }

    // Copies the first items, one less than there are stages.
    __device__ __forceinline__ void begin_copies(int from, int to) {
        for (int item = 0; item < T::kStages - 1; ++item) copy_item(item, (to - from) * 2, from);
    }

    // ---- A unit's beginning

    __device__ void begin_unit(const Unit& unit, int from, int to, bool assumes) {
        __syncthreads(); // all threads are done with the previous unit
        keys_ = static_cast<int>(args_.keys_of(unit.batch));
        batch_ = unit.batch;
        k_ = source_of(args_.k, unit);
        v_ = source_of(args_.v, unit);
        const int first_tile = args_.first_key_of(unit.batch) / kKeyTile;
        if (threadIdx.x == 0) memory_.first_tile = first_tile;
        if (assumes) { // first, in the stage that is still free
            const int key = first_tile * kKeyTile;
            find_pages(key);
            copy_segment(memory_.stages[T::kStages - 1], k_, key, min(keys_ - key, kKeyTile));
            end_group_of_copies();
        }
        begin_copies(from, to);
        for (int i = threadIdx.x; i < T::kRows * T::kDim; i += kThreads) {
            const int row = i / T::kDim;
            const int column = i % T::kDim;
            const RowPlace place = place_of(args_, unit, row, T::kRows);
            float value = 0.0f;
            if (place.exists && column < args_.dim)
                value = widened(args_.q.template of<E>(place.batch, place.head)[place.query * args_.q.row + column]);
            memory_.q[row][column] = value;
        }
#pragma unroll
        for (int i = 0; i < T::kWarpRows; ++i) {
            const int row = warp_ + i * kWarps;
            rows_[i].seen = row < T::kRows ? place_of(args_, unit, row, T::kRows).seen : 0;
            rows_[i].reference = empty_reference();
            rows_[i].keep_first(rows_[i].reference);
            rows_[i].lane_sum = 0.0f;
            rows_[i].changed = false;
        }
        each_total([](int, int, float& total) { total = 0.0f; });
        __syncthreads();
    }

    // Assumes the reference of the unit's first tile. A row with a later window has none yet: its first tile raises it.
    __device__ void assume_reference() {
        wait_for_copies<T::kStages - 1>();
        __syncthreads();
        compute_scores(memory_.stages[T::kStages - 1]);
        __syncthreads();
        for_rows([&](WarpRow& row, int index, int) {
            const float s = score_of(index, lane_);
            const int key = memory_.first_tile * kKeyTile + lane_;
            const float largest = warp_max(row.sees(key, args_.window) ? s : -HUGE_VALF);
            if (!row.reference.covers(largest)) row.reference = reference_at(largest, args_.scale);
            row.keep_first(row.reference);
        });
        __syncthreads();
    }

    // Finds the reference before the block's first segment, from the state at the end of the unit's first block and the
    // largest scores of all tiles between.
    __device__ void find_reference(const Share& share) {
        const Shares& shares = share.all;
        const int64_t first_block = shares.block_of(share.first_unit.first);
        const int64_t begin = shares.first(first_block + 1);
        const int64_t tiles = (share.first - begin) * kTiles;
        for_rows([&](WarpRow& row, int index, int) {
            const RowState& state = args_.scratch.states[first_block * T::kRows + index];
            row.reference = reference_of(RowStatistics{state.M, state.origin, 0.0f}, args_.scale);
            row.keep_first(reference_of(RowStatistics{state.first_M, state.first_origin, 0.0f}, args_.scale));
            for (int64_t tile = 0; tile < tiles; tile += kWarpSize) {
                const int64_t mine = tile + lane_;
                const float largest =
                    mine < tiles ? factors_at(shares, begin + mine / kTiles, index).largest[mine % kTiles] : -HUGE_VALF;
                for (unsigned left = kAllLanes; left != 0;) {
                    const unsigned above = __ballot_sync(kAllLanes, !row.reference.covers(largest)) & left;
                    if (above == 0) break;
                    const int at = __ffs(static_cast<int>(above)) - 1;
                    row.reference = reference_at(__shfl_sync(kAllLanes, largest, at), args_.scale);
                    left = at == kWarpSize - 1 ? 0 : kAllLanes << (at + 1);
                }
            }
        });
    }

    __device__ bool has_changed_before(const Share& share) const {
        const Shares& shares = share.all;
        const int64_t first_block = shares.block_of(share.first_unit.first);
        bool changed = threadIdx.x == 0 && args_.scratch.changed_in_first[first_block] != 0;
        for (int64_t block = first_block + 1 + threadIdx.x; block < blockIdx.x; block += kThreads)
            changed = changed ||
                      (shares.first(block) < shares.first(block + 1) && args_.scratch.changed_in_later[block] != 0);
        return __syncthreads_or(changed) != 0;
    }

    // ---- Segments

    __device__ void compute(int from, int to, bool keeps) {
        const int items = (to - from) * 2;
        for (int item = 0; item < items; item += 2) {
            const int segment = from + item / 2;
            const int64_t record = blockIdx.x * args_.scratch.most_segments + item / 2;
            wait_for_copies<T::kStages - 2>();
            __syncthreads();
            copy_item(item + T::kStages - 1, items, from);
            compute_scores(memory_.stages[item % T::kStages]);
            __syncthreads();
            weigh(segment, record, keeps);
            wait_for_copies<T::kStages - 2>();
            __syncthreads();
            copy_item(item + T::kStages, items, from);
            add_values(memory_.stages[(item + 1) % T::kStages], record, keeps);
        }
        wait_for_copies<0>();
        __syncthreads();
    }

    // The scores of a lane's keys, one chunk of columns after the other, for all rows at once.
    __device__ __forceinline__ void compute_scores(const E* stage) {
        constexpr int kStep = sizeof(E) == 4 ? 4 : 8; // columns per load
        const int key = warp_ / T::kChunkWarps * kWarpSize + lane_;
#pragma unroll
        for (int part = 0; part < T::kWarpChunks; ++part) {
            const int chunk = warp_ % T::kChunkWarps + part * T::kChunkWarps;
            float sums[T::kLaneKeys][T::kRows];
#pragma unroll
            for (int i = 0; i < T::kLaneKeys; ++i)
#pragma unroll
                for (int row = 0; row < T::kRows; ++row) sums[i][row] = 0.0f;
            const E* k = stage + key * T::kPitch + chunk * kScoreColumns;
            const float* q = &memory_.q[0][chunk * kScoreColumns];
#pragma unroll(T::kRows > 4 ? 2 : 4)
            for (int column = 0; column < kScoreColumns; column += kStep) {
                float keys[T::kLaneKeys][kStep];
#pragma unroll
                for (int i = 0; i < T::kLaneKeys; ++i) load_elements(keys[i], k + i * kWarpSize * T::kPitch + column);
#pragma unroll
                for (int at = 0; at < kStep; at += 4) {
#pragma unroll
                    for (int row = 0; row < T::kRows; ++row) {
                        const float4 of_q = *reinterpret_cast<const float4*>(q + row * T::kDim + column + at);
                        const float values[4] = {of_q.x, of_q.y, of_q.z, of_q.w};
#pragma unroll
                        for (int x = 0; x < 4; ++x)
#pragma unroll
                            for (int i = 0; i < T::kLaneKeys; ++i)
                                sums[i][row] = fused(values[x], keys[i][at + x], sums[i][row]);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < T::kLaneKeys; ++i)
#pragma unroll
                for (int row = 0; row < T::kRows; ++row) memory_.scores[chunk][row][key + i * kWarpSize] = sums[i][row];
        }
    }

    __device__ __forceinline__ float score_of(int row, int key) const {
        float s = memory_.scores[0][row][key];
#pragma unroll
        for (int chunk = 1; chunk < T::kChunks; ++chunk) s += memory_.scores[chunk][row][key];
        return s;
    }

    // Calls work for the warp's rows, one after the other.
    template <class Work>
    __device__ __forceinline__ void for_rows(const Work& work) {
#pragma unroll
        for (int i = 0; i < T::kWarpRows; ++i) {
            const int index = warp_ + i * kWarps;
            if (index < T::kRows) work(rows_[i], index, i);
        }
    }

    // Weights of the warp's rows, their running sums, and the factors of sums and totals. If sums are stored, the
    // assumed reference may be too low; a tile's largest score is then stored if it would raise the first one.
    __device__ __forceinline__ void weigh(int segment, int64_t record, bool keeps) {
        float s[T::kWarpRows][kTiles];
        bool seen[T::kWarpRows][kTiles];
        bool raises = false;
        for_rows([&](WarpRow& row, int index, int i) {
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
                s[i][tile] = score_of(index, tile * kKeyTile + lane_);
                seen[i][tile] = row.sees(segment * kSegmentKeys + tile * kKeyTile + lane_, args_.window);
                raises =
                    raises || (seen[i][tile] && s[i][tile] > (keeps ? row.first_above : row.reference.raise_above));
            }
        });
        if (__any_sync(kAllLanes, raises))
            for_rows([&](WarpRow& row, int index, int i) {
                weigh_row<true>(row, index, s[i], seen[i], segment, record, keeps);
            });
        else
            for_rows([&](WarpRow& row, int index, int i) {
                weigh_row<false>(row, index, s[i], seen[i], segment, record, keeps);
            });
    }

    template <bool kRaises>
    __device__ __forceinline__ void weigh_row(WarpRow& row, int index, const float (&s)[kTiles],
                                              const bool (&seen)[kTiles], int segment, int64_t record, bool keeps) {
        SegmentFactors* const factors = !keeps ? nullptr : args_.scratch.factors + record * T::kRows + index;
        const Reference before = row.reference;
        float last_alpha = 1.0f;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
            float alpha = 1.0f;
            float largest = -HUGE_VALF; // raises no reference
            if (kRaises) {
                largest = warp_max(seen[tile] ? s[tile] : -HUGE_VALF);
                if (!row.reference.covers(largest)) {
                    const Reference raised = reference_at(largest, args_.scale);
                    alpha = rescale_factor(row.reference, raised, args_.scale);
                    row.reference = raised;
                    if (!keeps && segment * kTiles + tile == memory_.first_tile)
                        row.keep_first(row.reference);
                    else
                        row.changed = true;
                }
            }
            const float p = seen[tile] ? row.reference.weight(s[tile], args_.scale) : 0.0f;
            memory_.weights[index][tile * kKeyTile + lane_] = p;
            const float p1 = __shfl_down_sync(kAllLanes, p, 1);
            const float p2 = __shfl_down_sync(kAllLanes, p, 2);
            const float p3 = __shfl_down_sync(kAllLanes, p, 3);
            const float share = ((p + p1) + p2) + p3;
            if (!keeps) {
                if (kRaises) row.lane_sum *= alpha;
                row.lane_sum += share;
            } else {
                if (lane_ % hw4::kLaneKeys == 0) factors->shares[tile][lane_ / hw4::kLaneKeys] = share;
                if (lane_ == 0) factors->raised[tile] = alpha;
                // A repeated share stores the same value, since first_above is the same: other blocks may read it.
                if (lane_ == 0) factors->largest[tile] = largest;
            }
            last_alpha = alpha;
        }
        float rescale = 1.0f;
        if (kRaises && (before.M != row.reference.M || before.origin != row.reference.origin))
            rescale = rescale_factor(before, row.reference, args_.scale);
        if (lane_ == 0) {
            memory_.raised[index] = last_alpha;
            memory_.rescale[index] = rescale;
            if (keeps) factors->rescale = rescale;
        }
    }

    // Weights times values, in the order of the keys; then adds them to the totals or stores them.
    __device__ __forceinline__ void add_values(const E* stage, int64_t record, bool keeps) {
        const int column = static_cast<int>(threadIdx.x) % T::kColumnThreads * T::kColumns;
        const int group = static_cast<int>(threadIdx.x) / T::kColumnThreads;
        if (group >= T::kRowGroups) return;
        const int first_row = group * T::kThreadRows;
        float o[T::kThreadRows][T::kColumns];
#pragma unroll
        for (int i = 0; i < T::kThreadRows; ++i)
#pragma unroll
            for (int x = 0; x < T::kColumns; ++x) o[i][x] = 0.0f;
        const E* v = stage + column;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
            if (tile > 0)
#pragma unroll
                for (int i = 0; i < T::kThreadRows; ++i)
#pragma unroll
                    for (int x = 0; x < T::kColumns; ++x) o[i][x] *= memory_.raised[first_row + i];
#pragma unroll 2
            for (int key = tile * kKeyTile; key < (tile + 1) * kKeyTile; key += 4) {
                float values[4][T::kColumns];
#pragma unroll
                for (int j = 0; j < 4; ++j) load_elements(values[j], v + (key + j) * T::kPitch);
#pragma unroll
                for (int i = 0; i < T::kThreadRows; ++i) {
                    const float4 p = *reinterpret_cast<const float4*>(&memory_.weights[first_row + i][key]);
                    const float weights[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
                    for (int j = 0; j < 4; ++j)
#pragma unroll
                        for (int x = 0; x < T::kColumns; ++x) o[i][x] = fused(weights[j], values[j][x], o[i][x]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < T::kThreadRows; ++i) {
            if (!keeps) {
                const float rescale = memory_.rescale[first_row + i];
#pragma unroll
                for (int x = 0; x < T::kColumns; ++x) totals_[i][x] = fused(totals_[i][x], rescale, o[i][x]);
            } else {
                store_columns(args_.scratch.sums + (record * T::kRows + first_row + i) * T::kDim + column, o[i]);
            }
        }
    }

    static __device__ __forceinline__ void store_columns(float* to, const float (&x)[T::kColumns]) {
        if constexpr (T::kColumns == 2)
            *reinterpret_cast<float2*>(to) = make_float2(x[0], x[1]);
        else
            *to = x[0];
    }

    // ---- A unit's end

    __device__ void write_output(const Unit& unit) {
        for_rows([&](WarpRow& row, int index, int) {
            float l = row.lane_sum;
            for (int distance = hw4::kLaneKeys; distance < kWarpSize; distance *= 2)
                l += __shfl_xor_sync(kAllLanes, l, distance);
            l = __shfl_sync(kAllLanes, l, 0);
            if (lane_ == 0) {
                memory_.inverse[index] = l > 0 ? 1.0f / l : 0.0f;
                const RowPlace place = place_of(args_, unit, index, T::kRows);
                if (place.exists) store_statistics(args_, place, {row.reference.M, row.reference.origin, l});
            }
        });
        __syncthreads();
        each_total([&](int index, int column, float& total) {
            const RowPlace place = place_of(args_, unit, index, T::kRows);
            if (!place.exists || column >= args_.dim) return;
            E* const out = const_cast<E*>(args_.out.template of<E>(place.batch, place.head));
            narrow_to(out[place.query * args_.out.row + column], result(total, memory_.inverse[index]));
        });
    }

    template <class Work>
    __device__ __forceinline__ void each_total(const Work& work) {
        const int column = static_cast<int>(threadIdx.x) % T::kColumnThreads * T::kColumns;
        const int group = static_cast<int>(threadIdx.x) / T::kColumnThreads;
        if (group >= T::kRowGroups) return;
#pragma unroll
        for (int i = 0; i < T::kThreadRows; ++i)
#pragma unroll
            for (int x = 0; x < T::kColumns; ++x) work(group * T::kThreadRows + i, column + x, totals_[i][x]);
    }

    __device__ void keep_totals() {
        keep_states(args_.scratch.states);
        keep_changed(args_.scratch.changed_in_first);
        each_total([&](int index, int column, float& total) {
            args_.scratch.totals[(int64_t{blockIdx.x} * T::kRows + index) * T::kDim + column] = total;
        });
    }

    // Loads what the previous block stored of the unit.
    __device__ void take_over() {
        const int64_t block = int64_t{blockIdx.x} - 1;
        if (threadIdx.x == 0)
            while (load_acquire(args_.scratch.handed_over + block) == 0) __nanosleep(100);
        __syncthreads();
        for_rows([&](WarpRow& row, int index, int) {
            const RowState& state = args_.scratch.states[block * T::kRows + index];
            row.reference = reference_of(RowStatistics{__ldcg(&state.M), __ldcg(&state.origin), 0.0f}, args_.scale);
            row.lane_sum = __ldcg(&state.lanes[lane_ / hw4::kLaneKeys]);
        });
        each_total([&](int index, int column, float& total) {
            total = __ldcg(args_.scratch.totals + (block * T::kRows + index) * T::kDim + column);
        });
    }

    __device__ void hand_over() {
        __syncthreads();
        if (threadIdx.x == 0) store_release(args_.scratch.handed_over + blockIdx.x, 1);
    }

    __device__ void keep_states(RowState* states) {
        for_rows([&](WarpRow& row, int index, int) {
            RowState& state = states[int64_t{blockIdx.x} * T::kRows + index];
            if (lane_ % hw4::kLaneKeys == 0) state.lanes[lane_ / hw4::kLaneKeys] = row.lane_sum;
            if (lane_ != 0) return;
            state.M = row.reference.M;
            state.origin = row.reference.origin;
            state.first_M = row.first_M;
            state.first_origin = row.first_origin;
        });
    }

    __device__ void keep_changed(int* to) {
        bool changed = false;
        for_rows([&](WarpRow& row, int, int) { changed = changed || row.changed; });
        const int any = __syncthreads_or(changed);
        if (threadIdx.x == 0) to[blockIdx.x] = any;
    }

    __device__ const SegmentFactors& factors_at(const Shares& shares, int64_t segment, int index) const {
        const int64_t block = shares.block_of(segment);
        const int64_t record = block * args_.scratch.most_segments + segment - shares.first(block);
        return args_.scratch.factors[record * T::kRows + index];
    }

    const Args& args_;
    Memory& memory_;
    const int lane_;
    const int warp_;
    const int copied_row_;    // the first row of a segment that this thread copies
    const int copied_column_; // its column
    Source k_{};
    Source v_{};
    int keys_ = 0;  // of the unit
    int batch_ = 0; // of the unit
    int page_ = 0;  // in lane i: the page of part i of the last segment that was looked up
    WarpRow rows_[T::kWarpRows];
    float totals_[T::kThreadRows][T::kColumns];
};

template <class T, bool kPaged>
__global__ void __launch_bounds__(kThreads, T::kBlocks) segments_kernel(const __grid_constant__ Args args, bool again) {
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char block_memory[];
    SegmentBlock<T, kPaged>(args, *reinterpret_cast<typename T::Memory*>(block_memory)).run(again);
#else
    __trap();
#endif
}

} // namespace hw4::gpu::split
