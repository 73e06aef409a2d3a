// What a group of 128 threads does with its 64 query rows, whichever instructions take the products: tile after tile of
// weights, running sums, output.
#pragma once

#include "queries.cuh"
#include "running_sums.cuh"

namespace hw4::gpu::fixed_point {

// Sums of products of digits, by level.
template <int kN>
struct Levels {
    int32_t l[kDigits * kN];

    __device__ __forceinline__ int32_t combined(int i) const { return fixed::combined(l[2 * kN + i], l[kN + i], l[i]); }
};
using ScoreLevels = Levels<kScoresEach>;

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
