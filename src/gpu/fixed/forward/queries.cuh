// A group's 64 query rows: where they are, their loads from memory, and their digits in shared memory.
#pragma once

#include "src/gpu/common/forward_args.h"
#include "src/gpu/fixed/forward/card_plan.h"
#include "src/gpu/fixed/forward/digits.cuh"
#include "src/gpu/fixed/forward/elements.cuh"

namespace hw4::gpu::fixed_point {

constexpr int kGroupThreads = 128;
constexpr int kGroupWarps = kGroupThreads / 32;

// A group's rows of Q.
template <class Rules, int kDim>
struct Queries {
    alignas(1024) unsigned char planes[Rules::kDigits][kGroupRows * kDim]; // the lowest digits first
    int exponent[kGroupRows];
    float longest_square[kGroupWarps]; // for each warp's rows, up to rounding, if the contract needs lengths
    int least_value;                   // the smallest exponent of the head's V
};

// Turns a group's rows of Q into digits: some lanes for each row, four columns per lane, and some rows at a time.
template <class Rules, int kDim, bool kManyJobs = false>
struct QueryDigits {
    static_assert(!kManyJobs || Rules::kDigits == 2);
    static constexpr int kColumns = kDim < 128 ? kDim : 128; // in those lanes at a time
    static constexpr int kParts = kDim / kColumns;
    static constexpr int kLanes = kColumns / 4;
    static constexpr int kRowsAtOnce = kGroupThreads / kLanes;
    static constexpr int kSteps = kGroupRows / kRowsAtOnce;
    static constexpr int kAhead = kSteps * kParts < 8 ? kSteps : 8 / kParts; // steps with loads in flight
    static_assert(kSteps % kAhead == 0);
    using Rows = float4[kAhead][kParts];

    static __device__ int thread() { return thread_number<kManyJobs>() % kGroupThreads; }
    static __device__ int row(int step) { return step * kRowsAtOnce + thread() / kLanes; }
    static __device__ int column(int part) { return part * kColumns + thread() % kLanes * 4; }

    // Stores the rows of some steps, times c. Returns the square of one of them, of another row in every few lanes, if
    // the contract needs lengths.
    static __device__ __forceinline__ float store(Queries<Rules, kDim>& to, int first, const Rows& x, float c,
                                                  const HeadFacts& facts) {
        constexpr int kOwners = kLanes / kAhead; // lanes that have the same row's largest magnitude
        float magnitudes[kAhead];
        float squares[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            magnitudes[i] = squares[i] = 0;
#pragma unroll
            for (const float4& n : x[i]) {
                magnitudes[i] = larger_magnitude(n, magnitudes[i]);
                if (Rules::kNeedsLengths) squares[i] = added_squares(n, squares[i]);
            }
        }
        float square = 0;
        if constexpr (Rules::kNeedsLengths)
            square = combined_row<kLanes>(squares, [](float a, float b) { return a + b; });
        const float magnitude = combined_row<kLanes>(magnitudes, [](float a, float b) { return fmaxf(a, b); });
        const float factor = fixed::query_factor(c);
        const float largest = fixed::scaled_query(magnitude, factor);
        const int exponent = Rules::row_exponent(largest, facts);
        if (thread() % kOwners == 0) to.exponent[row(first + thread() % kLanes / kOwners)] = exponent;

        if (__all_sync(~0u, fixed::scaled_at_once<Rules::kDigits>(largest, exponent))) {
            const float at_once = fixed::factor_at_once(factor, exponent);
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const float of_row = __shfl_sync(~0u, at_once, i * kOwners, kLanes);
                store_row(to, row(first + i), x[i], [&](float n) {
                    if constexpr (kManyJobs)
                        return fixed::two_biased_digits_at_once(n, of_row);
                    else
                        return biased(fixed::nearest(n * of_row));
                });
            }
        } else {
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const fixed::Factors scale = fixed::factors(__shfl_sync(~0u, exponent, i * kOwners, kLanes));
                store_row(to, row(first + i), x[i],
                          [&](float n) { return biased(fixed::quantised(fixed::scaled_query(n, factor), scale)); });
            }
        }
        return square * c * c;
    }

private:
    static __device__ __forceinline__ uint32_t biased(int32_t n) {
        return fixed::Numbers<Rules::kDigits>::biased_digits(n);
    }

    template <class Biased>
    static __device__ __forceinline__ void store_row(Queries<Rules, kDim>& to, int row, const float4 (&x)[kParts],
                                                     const Biased& digits) {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
            planes_of<Rules::kDigits>(x[part], digits)
                .store(to.planes[0] + swizzled<kDim>(row, column(part)), sizeof(to.planes[0]));
    }
};

// The beginning of a row; rows are `stride` bytes apart.
template <class T>
__device__ __forceinline__ T* row_behind(T* first, uint32_t row, uint32_t stride) {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(first) + uint64_t{row} * stride);
}

// The number in its group of the thread's first or second row.
template <bool kManyJobs = false>
__device__ __forceinline__ int row_in_group(int row) {
    const int thread = thread_number<kManyJobs>();
    return thread % kGroupThreads / 32 * 16 + thread % 32 / 4 + 8 * row;
}

// The part of the problem that a group computes.
struct GroupRows {
    uint32_t unit;
    int64_t first; // in the unit's query rows
    int rows;      // existing rows, up to 64

    // The group with `groups_before` of the unit's groups before it; for a negative number it has no rows.
    static __device__ GroupRows of(const ForwardArgs& args, uint32_t unit, int64_t groups_before) {
        if (groups_before < 0) return {unit, 0, 0};
        const int64_t first = groups_before * kGroupRows;
        const int64_t left = args.queries - first;
        return {unit, first, static_cast<int>(max(int64_t{0}, min(int64_t{kGroupRows}, left)))};
    }

    // Tiles that all of the rows see whole; and the end of the tiles that any row sees part of, at least one tile.
    template <class Rules>
    __device__ unsigned whole_tiles(const ForwardArgs& args) const {
        return static_cast<unsigned>(args.sight.of(first) / Rules::kTileKeys); // the first of the rows sees least
    }
    template <class Rules>
    __device__ unsigned end_tile(const ForwardArgs& args) const {
        return static_cast<unsigned>(max(tiles_of<Rules>(args.sight.of(first + rows - 1)), int64_t{1}));
    }

    // The keys of a tile that the thread's rows see; without kMasked all keys that exist, otherwise `more` more for
    // each row.
    template <class Rules, bool kMasked>
    __device__ __forceinline__ TileSight sight(const ForwardArgs& args, unsigned tile, int more) const {
        constexpr int kKeys = Rules::kTileKeys;
        const int64_t all = kMasked ? args.sight.first + (first + row_in_group(0)) * more : args.keys;
        return {static_cast<int>(min(int64_t{kKeys}, all - int64_t{tile} * kKeys)) -
                    static_cast<int>(threadIdx.x) % 4 * 2,
                more};
    }

    // The beginning of a row, for any element type: computed once for all, since registers are few.
    template <class Rules>
    __device__ const void* query(const ForwardArgs& args, int row) const {
        return row_at<Rules>(args, args.q, row);
    }
    template <class Rules>
    __device__ void* output(const ForwardArgs& args, int row) const {
        return row_at<Rules>(args, args.out, row);
    }

private:
    template <class Rules, class T>
    __device__ T* row_at(const ForwardArgs& args, const Heads<T>& heads, int row) const {
        T* const of_floats = heads.of(unit) + static_cast<size_t>(first + row) * heads.row;
        if (!Rules::kTakesNarrow) return of_floats;
        const auto begin = reinterpret_cast<uintptr_t>(heads.at);
        const uintptr_t bytes = reinterpret_cast<uintptr_t>(of_floats) - begin;
        return reinterpret_cast<T*>(begin + (args.is_narrow() ? bytes / 2 : bytes));
    }
};

// Loads a group's rows of Q, and the facts about their keys, asynchronously.
template <class Rules, int kDim>
class ComingQueries {
public:
    HeadFacts facts;

    // Rows that do not exist are zeros.
    __device__ __forceinline__ void fetch(const ForwardArgs& args, const Prepared& prepared, const GroupRows& where) {
        from_ = where.query<Rules>(args, Digits::row(0));
        rows_ = where.rows;
        facts = prepared.heads[args.kv_unit(where.unit)];
        fetch_rows(args, 0);
    }

    // All threads of a group call it.
    __device__ __forceinline__ void store(const ForwardArgs& args, Queries<Rules, kDim>& to) {
        float square = 0;
#pragma unroll 1
        for (int first = 0;;) {
            widen(args);
            square = fmaxf(square, Digits::store(to, first, x_, args.scale.c, facts));
            first += Digits::kAhead;
            if (first == Digits::kSteps) break;
            fetch_rows(args, first);
        }
        if constexpr (Rules::kNeedsLengths) {
            square = warp_max_of_magnitudes(square);
            if (Digits::thread() % 32 == 0) to.longest_square[Digits::thread() / 32] = square;
        }
        if (Digits::thread() == 0) to.least_value = facts.v.smallest();
    }

private:
    using Digits = QueryDigits<Rules, kDim>;

    const void* from_; // the thread's row of the next step
    int rows_;
    typename Digits::Rows x_; // as loaded from memory, until widen()

    __device__ __forceinline__ void fetch_rows(const ForwardArgs& args, int first) {
        if constexpr (Rules::kTakesNarrow) {
            if (args.is_narrow()) return fetch_rows_of<uint16_t>(args, first);
        }
        fetch_rows_of<float>(args, first);
    }

    template <class Stored>
    __device__ __forceinline__ void fetch_rows_of(const ForwardArgs& args, int first) {
        const Stored* from = static_cast<const Stored*>(from_);
        const auto fetch = [&](const auto& four) {
#pragma unroll
            for (int i = 0; i < Digits::kAhead; ++i) {
#pragma unroll
                for (int part = 0; part < Digits::kParts; ++part)
                    x_[i][part] = held(four(Digits::row(first + i), Digits::column(part)));
                from += Digits::kRowsAtOnce * args.q.row;
            }
        };
        if (args.dim == kDim && rows_ == kGroupRows)
            fetch([&](int, int column) { return four_at(from, column); });
        else
            fetch([&](int row, int column) {
                return row < rows_ ? four_columns(from, column, args.dim, args.dim % 4 == 0) : Four<Stored>{};
            });
        from_ = from;
    }

    // Stored in the registers of the floats that they become: only then must the loads have arrived. All four are set;
    // otherwise the last two would have to be kept from the previous rows.
    static __device__ __forceinline__ float4 held(float4 four) { return four; }
    static __device__ __forceinline__ float4 held(uint2 four) {
        return make_float4(float_of(four.x), float_of(four.y), 0.0f, 0.0f);
    }

    __device__ __forceinline__ void widen(const ForwardArgs& args) {
        if (!Rules::kTakesNarrow) return;
        if (args.element == Element::bf16) widen_from<Bf16>();
        if (args.element == Element::fp16) widen_from<Fp16>();
    }
    template <class Number>
    __device__ __forceinline__ void widen_from() {
#pragma unroll
        for (auto& row : x_)
#pragma unroll
            for (float4& four : row) four = widened<Number>(make_uint2(bits_of(four.x), bits_of(four.y)));
    }
};

} // namespace hw4::gpu::fixed_point
