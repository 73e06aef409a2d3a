// What a group of 128 threads does with its 64 query rows, whichever instructions take the products: rows to digits,
// tile after tile of weights, running sums, output.
#pragma once

#include "../kernels.h"
#include "tile_weights.cuh"
#include "uniform.cuh"
#include "unit_rows.h"

namespace hw4::gpu::fixed_point {

constexpr int kGroupThreads = 128;
constexpr int kGroupWarps = kGroupThreads / 32;

// A group's rows of Q.
template <int kDim>
struct Queries {
    alignas(1024) unsigned char planes[kDigits][kGroupRows * kDim]; // low, middle, high
    int exponent[kGroupRows];
    float longest_square[kGroupWarps]; // of each warp's rows, up to rounding
};

// A group's rows of Q to digits: some lanes for each row, four columns a lane, and some rows at a time.
template <int kDim>
struct QueryDigits {
    static constexpr int kColumns = kDim < 128 ? kDim : 128; // that those lanes hold at a time
    static constexpr int kParts = kDim / kColumns;
    static constexpr int kLanes = kColumns / 4;
    static constexpr int kRowsAtOnce = kGroupThreads / kLanes;
    static constexpr int kSteps = kGroupRows / kRowsAtOnce;
    static constexpr int kAhead = kSteps * kParts < 8 ? kSteps : 8 / kParts; // steps whose numbers are on their way
    static_assert(kSteps % kAhead == 0);
    using Rows = float4[kAhead][kParts];

    static __device__ int thread() { return static_cast<int>(threadIdx.x) % kGroupThreads; }
    static __device__ int row(int step) { return step * kRowsAtOnce + thread() / kLanes; }
    static __device__ int column(int part) { return part * kColumns + thread() % kLanes * 4; }

    // The rows of some steps, times c; returns the square of one of them, another one in every few lanes.
    static __device__ __forceinline__ float store(Queries<kDim>& to, int first, const Rows& x, float c) {
        constexpr int kOwners = kLanes / kAhead; // lanes that know the same row's largest
        float magnitudes[kAhead];
        float squares[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            magnitudes[i] = squares[i] = 0;
#pragma unroll
            for (const float4& n : x[i]) {
                magnitudes[i] = larger_magnitude(n, magnitudes[i]);
                squares[i] = added_squares(n, squares[i]);
            }
        }
        const float square = combined_row<kLanes>(squares, [](float a, float b) { return a + b; });
        const float magnitude = combined_row<kLanes>(magnitudes, [](float a, float b) { return fmaxf(a, b); });
        const float largest = fixed::scaled_query(magnitude, c);
        const int exponent = fixed::exponent_for(largest);
        if (thread() % kOwners == 0) to.exponent[row(first + thread() % kLanes / kOwners)] = exponent;

        if (__all_sync(~0u, fixed::scales_at_once(largest, exponent))) {
            const float factor = fixed::factor_at_once(c, exponent);
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const float of_row = __shfl_sync(~0u, factor, i * kOwners, kLanes);
                store_row(to, row(first + i), x[i], [&](float n) { return fixed::nearest(n * of_row); });
            }
        } else {
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const fixed::Factors scale = fixed::factors(__shfl_sync(~0u, exponent, i * kOwners, kLanes));
                store_row(to, row(first + i), x[i],
                          [&](float n) { return fixed::quantised(fixed::scaled_query(n, c), scale); });
            }
        }
        return square * c * c;
    }

private:
    template <class Quantise>
    static __device__ __forceinline__ void store_row(Queries<kDim>& to, int row, const float4 (&x)[kParts],
                                                     const Quantise& quantised) {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
            planes_of(x[part], quantised).store(to.planes[0] + swizzled<kDim>(row, column(part)), sizeof(to.planes[0]));
    }
};

// A group's part of the problem.
struct GroupRows {
    uint32_t batch;
    int64_t first; // of the batch's query rows
    int rows;      // that exist, up to 64

    // The group that has so many of the batch's groups before it.
    static __device__ GroupRows of(const KernelArgs& args, uint32_t batch, int64_t groups_before) {
        const int64_t first = args.first_query + groups_before * kGroupRows;
        const int64_t left = min(args.end_query, args.tokens) - first;
        return {batch, first, static_cast<int>(max(int64_t{0}, min(int64_t{kGroupRows}, left)))};
    }

    __device__ const float* queries(const KernelArgs& args) const {
        return args.qkv + static_cast<size_t>(3 * int64_t{batch} * args.tokens + first) * args.qkv_stride;
    }
    __device__ float* output(const KernelArgs& args, int row) const {
        return args.out + static_cast<size_t>(int64_t{batch} * args.tokens + first + row) * args.out_stride;
    }
};

// A group's rows of Q, and what is known of their batch, on the way from memory.
template <int kDim>
class ComingQueries {
public:
    BatchFacts batch;

    // Rows that do not exist are zeros.
    __device__ __forceinline__ void fetch(const KernelArgs& args, const Prepared& prepared, const GroupRows& where) {
        from_ = where.queries(args) + static_cast<size_t>(Digits::row(0)) * args.qkv_stride;
        rows_ = where.rows;
        batch = prepared.batches[where.batch];
        fetch_rows(args, 0);
    }

    // By all of a group.
    __device__ __forceinline__ void store(const KernelArgs& args, Queries<kDim>& to) {
        float square = 0;
#pragma unroll 1
        for (int first = 0;;) {
            square = fmaxf(square, Digits::store(to, first, x_, args.scale.c));
            first += Digits::kAhead;
            if (first == Digits::kSteps) break;
            fetch_rows(args, first);
        }
        square = largest_of_warp(square);
        if (Digits::thread() % 32 == 0) to.longest_square[Digits::thread() / 32] = square;
    }

private:
    using Digits = QueryDigits<kDim>;

    const float* from_; // the thread's row of the next step
    int rows_;
    typename Digits::Rows x_;

    __device__ __forceinline__ void fetch_rows(const KernelArgs& args, int first) {
        const auto fetch = [&](const auto& four) {
#pragma unroll
            for (int i = 0; i < Digits::kAhead; ++i) {
#pragma unroll
                for (int part = 0; part < Digits::kParts; ++part)
                    x_[i][part] = four(Digits::row(first + i), Digits::column(part));
                from_ += Digits::kRowsAtOnce * args.qkv_stride;
            }
        };
        if (args.dim == kDim && rows_ == kGroupRows)
            fetch([&](int, int column) { return *reinterpret_cast<const float4*>(from_ + column); });
        else
            fetch([&](int row, int column) {
                return row < rows_ ? four_columns(from_, column, args.dim, args.dim % 4 == 0) : make_float4(0, 0, 0, 0);
            });
    }
};

// What is known of a group's rows and all tiles of their batch before the first one.
struct Outlook {
    Spread spread;  // of the scores of a row in any tile, or a wider one: any gives the same bytes
    bool steady;    // is_steady(), of all 64 rows, whether they exist or not
    int k_exponent; // of all tiles, where steady
};

// Whether all is steady is only found out where kMaySteady: it takes some time, which short sequences do not give back.
template <bool kMaySteady, int kDim>
__device__ __forceinline__ Outlook outlook_of(const Queries<kDim>& queries, const BatchFacts& batch) {
    float square = 0;
#pragma unroll
    for (float of_warp : queries.longest_square) square = fmaxf(square, of_warp);
    const Spread spread = spread_of(uniform(2.0f * length_bound(square) * batch.longest_key));
    if constexpr (kMaySteady) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const int finest = largest_of_warp(max(queries.exponent[lane], queries.exponent[lane + 32]));
        return {spread, is_steady(batch, finest), batch.k.largest()};
    }
    return {spread, false, 0};
}

// Sums of products of digits, by level.
template <int kN>
struct Levels {
    int32_t l[kDigits * kN];

    __device__ __forceinline__ int32_t combined(int i) const { return fixed::combined(l[2 * kN + i], l[kN + i], l[i]); }
};
using ScoreLevels = Levels<kScoresEach>;

// R of a row. Where scores have fractions, all M are integers far below 2^24, and R is kept as an integer, which takes
// fewer instructions and gives the same bits; else as a float. All tiles of a row are of one of these kinds.
struct RowReference {
    float held; // the float, or an integer's bits, which may be those of no number: they are only moved

    // Below all M: minus infinity as a float, and -2^23 as an integer.
    static __device__ RowReference none() { return {-HUGE_VALF}; }

    __device__ __forceinline__ bool is_raised_by(float M) const { return fixed::raises(M, held); }
    __device__ __forceinline__ bool is_raised_by(int M) const {
        return lead_of(M) > static_cast<int>(fixed::kReferenceSlack);
    }
    __device__ __forceinline__ float lead_of(float M) const { return M - held; }
    __device__ __forceinline__ int lead_of(int M) const { return M - static_cast<int>(bits_of(held)); }
    __device__ __forceinline__ void set(float M) { held = M; }
    __device__ __forceinline__ void set(int M) { held = float_of(static_cast<uint32_t>(M)); }
};

// What a thread carries from tile to tile for its two rows.
template <int kParts, int kSums>
struct Running {
    RowReference reference[kRowsEach];
    float l[kRowsEach];
    float h[kRowsEach];
    float o[kParts][kSums]; // as the products leave them: 4*g + 2*row + i

    static constexpr int kNumbers = 3 * kRowsEach + kParts * kSums;

    // Number after number.
    template <class Visit>
    __device__ void visit(const Visit& each) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            each(reference[row].held);
            each(l[row]);
            each(h[row]);
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i) each(o[part][i]);
    }

    __device__ void clear() {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            reference[row] = RowReference::none();
            l[row] = h[row] = 0;
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i) o[part][i] = 0;
    }

    template <class Reference>
    __device__ void raise(int row, Reference M) {
        const float alpha = fixed::weight_of_tile(-reference[row].lead_of(M));
        l[row] *= alpha;
        h[row] *= alpha;
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < kSums; ++i)
                if (row_of(i) == row) o[part][i] *= alpha;
        reference[row].set(M);
    }

    // l and h; finds what the tile's values weigh.
    template <class Weights>
    __device__ __forceinline__ void add_weights(const Weights& weights, const RowPair& pair, int v_lead,
                                                float (&weight)[kRowsEach]) {
        using Reference = decltype(weights.reference(0, pair));
        Reference M[kRowsEach];
        bool raised = false;
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            M[row] = weights.reference(row, pair);
            raised |= reference[row].is_raised_by(M[row]);
        }
        if (__builtin_expect(__any_sync(~0u, raised), 0)) {
#pragma unroll
            for (int row = 0; row < kRowsEach; ++row)
                if (reference[row].is_raised_by(M[row])) raise(row, M[row]);
        }
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            const Reference lead = reference[row].lead_of(M[row]);
            l[row] = fused(static_cast<float>(pair.sum[row]), fixed::weight_of_tile(lead), l[row]);
            weight[row] = fixed::weight_of_tile(lead + static_cast<Reference>(v_lead));
            h[row] += weight[row];
        }
    }

    __device__ __forceinline__ void add_value(int part, int i, int32_t y, const float (&weight)[kRowsEach]) {
        o[part][i] = fused(static_cast<float>(y), weight[row_of(i)], o[part][i]);
    }

    __device__ void store(int row, float* out, int dim, fixed::Factors scale) const {
        const float inverse = 1.0f / l[row];
        const int first = static_cast<int>(threadIdx.x) % 4 * 2;
        float* to = out + first;
        asm("" : "+l"(to)); // one address, and offsets: the compiler would work out every number's from the beginning
        __builtin_assume(__isGlobal(to));
        const auto result = [&](float x) { return fixed::fixed_result(x, h[row], inverse, scale); };
        if (dim == kColumns)
            store_whole(row, to, result);
        else
            store_up_to(dim - first, dim % 4 == 0, row, to, result);
    }

private:
    static constexpr int kGroups = kSums / 4; // of eight columns, in a part; of each a thread has two, in either row
    static constexpr int kColumns = kParts * 2 * kSums;

    // All columns. The results of a part are there before the first is stored, so that none waits until the one before
    // has left its registers.
    template <class Result>
    __device__ __forceinline__ void store_whole(int row, float* to, const Result& result) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            float2 pair[kGroups];
#pragma unroll
            for (int group = 0; group < kGroups; ++group)
                pair[group] =
                    make_float2(result(o[part][4 * group + 2 * row]), result(o[part][4 * group + 2 * row + 1]));
#pragma unroll
            for (int group = 0; group < kGroups; ++group)
                *reinterpret_cast<float2*>(to + part * 2 * kSums + 8 * group) = pair[group];
        }
    }

    // The columns that there are, counted from the thread's first; both of a pair or neither where pairs can be stored.
    template <class Result>
    __device__ void store_up_to(int left, bool pairs, int row, float* to, const Result& result) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
                const int column = part * 2 * kSums + 8 * group;
                const float a = result(o[part][4 * group + 2 * row]);
                const float b = result(o[part][4 * group + 2 * row + 1]);
                if (pairs) {
                    if (column < left) *reinterpret_cast<float2*>(to + column) = make_float2(a, b);
                } else {
                    if (column < left) to[column] = a;
                    if (column + 1 < left) to[column + 1] = b;
                }
            }
    }
};

// The exponents that a thread needs, of its two rows of Q and the least of V, in one register; in place of the rows',
// for a while, the bits of their scores.
class PackedExponents {
public:
    PackedExponents() = default;
    __device__ PackedExponents(int row0, int row1, int least)
        : bytes_(static_cast<uint32_t>(row0 + kOffset) | static_cast<uint32_t>(row1 + kOffset) << 8 |
                 static_cast<uint32_t>(least + kOffset) << 16) {}

    __device__ __forceinline__ int of_row(int row) const { return byte(row) - kOffset; }
    __device__ __forceinline__ int least() const { return byte(2) - kOffset; }

    // From the rows' exponents to bits and back, where all is steady and scores are near: bits are 13 to 23 then, and
    // no byte borrows from another.
    __device__ void to_bits(int k_exponent) { add_to_rows(k_exponent - 24 - kOffset); }
    __device__ void to_exponents(int k_exponent) { add_to_rows(24 + kOffset - k_exponent); }
    __device__ __forceinline__ int bits(int row) const { return byte(row); }

private:
    static constexpr int kOffset = -ExponentRange::kLeast;
    static_assert(ExponentRange::kMost + kOffset <= 0xff);
    uint32_t bytes_;

    __device__ void add_to_rows(int number) { bytes_ += 0x101u * static_cast<uint32_t>(number); }

    __device__ __forceinline__ int byte(uint32_t i) const {
        return static_cast<int>(__byte_perm(bytes_, 0, 0x4440 + i));
    }
};

// The work on a group's rows. Products takes the products of digits, and knows the scales of a tile.
template <class Products>
struct Group {
    static constexpr int kParts = Products::Layout::kParts;
    static constexpr int kSums = Products::Layout::kColumns / 2; // of a thread: two rows
    static constexpr int kLateSums = Products::kLateSums;

    Products products;
    PackedExponents exponents;
    RowPair pair;
    Running<kParts, kSums> running;

    __device__ explicit Group(const Products& p) : products(p) {}

    // Before the first tile of some rows, with their exponents and the least of the batch's V.
    __device__ void begin(const int* q, int least) {
        exponents = PackedExponents(q[row_in_group(0)], q[row_in_group(1)], least);
        running.clear();
    }

    static __device__ int row_in_group(int row) {
        return static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 +
               8 * row;
    }

    // Tiles [first, end) of a batch.
    __device__ __forceinline__ void attend(unsigned first, unsigned end, int64_t tokens, const Outlook& outlook) {
        const unsigned whole = uniform(max(first, min(static_cast<unsigned>(tokens / kTileKeys), end)));
        unsigned tile = uniform(first);
        const auto keys = [&] {
            return static_cast<int>(min(int64_t{kTileKeys}, tokens - int64_t{tile} * kTileKeys)) -
                   static_cast<int>(threadIdx.x) % 4 * 2;
        };
        if (Products::kMaySteady && outlook.spread == Spread::near && outlook.steady) {
            exponents.to_bits(outlook.k_exponent);
            attend_run<kLateSums>(tile, whole, [] { return SteadyWeights{}; });
            exponents.to_exponents(outlook.k_exponent);
        } else if (outlook.spread == Spread::near) {
            attend_run<kLateSums>(tile, whole, [] { return NearWeights{}; });
        }
        if (outlook.spread != Spread::any)
            attend_run<0>(tile, end, [&] { return FarWeights(keys()); });
        else
            attend_run<0>(tile, end, [&] { return AnyWeights{keys(), {}, {}}; });
    }

    __device__ void store(const KernelArgs& args, const GroupRows& where) const {
        const fixed::Factors scale = fixed::factors(24 - exponents.least());
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row)
            if (row_in_group(row) < where.rows)
                running.store(row, where.output(args, row_in_group(row)), args.dim, scale);
    }

private:
    // The last kLate sums of a tile's values, which are added later than the others; none where that is 0.
    template <int kLate>
    struct LateValues {
        int32_t sums[kLate > 0 ? kLate : 1];
        float weight[kRowsEach];
    };

    // Tiles [tile, end). What does not depend on the products under way comes between their beginning and their end:
    // late values are added when the scores of the next tile have begun.
    template <int kLate, class MakeWeights>
    __device__ __forceinline__ void attend_run(unsigned& tile, unsigned end, const MakeWeights& make_weights) {
        if (tile >= end) return;
        ScoreLevels s;
        products.begin_scores(tile, s);
        for (;;) {
            const LateValues<kLate> late = attend_tile<kLate>(tile, s, make_weights());
            if (++tile == end) {
                add_late(late);
                return;
            }
            products.begin_scores(tile, s);
            add_late(late);
        }
    }

    // A tile whose scores have begun, but for its late values.
    template <int kLate, class Weights>
    __device__ __forceinline__ LateValues<kLate> attend_tile(unsigned tile, ScoreLevels& s, Weights weights) {
        int v_lead = 0;
        if constexpr (Weights::kSteady) {
            weights.scale({exponents.bits(0), exponents.bits(1)});
        } else {
            const TileScales scales = products.scales(tile);
            weights.scale({exponents.of_row(0), exponents.of_row(1)}, scales.k_exponent);
            v_lead = exponents.least() - scales.v_exponent;
        }
        products.end_scores(tile, s);

        int32_t x[kScoresEach];
#pragma unroll
        for (int i = 0; i < kScoresEach; ++i) x[i] = s.combined(i);
        weights.begin(x, pair);
        WeightPlanes planes;
        clear_sums(pair);
        form_half(x, 0, pair, weights, planes.half[0]);
        form_half(x, 1, pair, weights, planes.half[1]);
        close_sums(pair);

        float weight[kRowsEach];
        running.add_weights(weights, pair, v_lead, weight);
        LateValues<kLate> late{{}, {weight[0], weight[1]}};
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            Levels<kSums> y;
            products.begin_values(tile, part, planes, y);
            products.end_values(tile, part, y);
            const int now = part < kParts - 1 ? kSums : kSums - kLate;
#pragma unroll
            for (int i = 0; i < kSums; ++i) {
                if (i < now)
                    running.add_value(part, i, y.combined(i), weight);
                else
                    late.sums[i - now] = y.combined(i);
            }
        }
        products.leave();
        return late;
    }

    template <int kLate>
    __device__ __forceinline__ void add_late(const LateValues<kLate>& late) {
#pragma unroll
        for (int i = 0; i < kLate; ++i) running.add_value(kParts - 1, kSums - kLate + i, late.sums[i], late.weight);
    }
};

} // namespace hw4::gpu::fixed_point
