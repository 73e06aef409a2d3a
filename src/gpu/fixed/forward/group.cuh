// The work of a group of 128 threads on its 64 query rows under fixed, with any product instructions: weights tile
// after tile, running sums, output.
//
// A map. Numbers are integers of three digits, bytes, times a power of two (the contract); the tensor cores compute six
// of the nine products of digits, the ones that count, by three levels, and integers add up in any order.
//
//        before: K and V of all tiles to digits, once for all rows       prepare.cu, digits.cuh, layout.h
//                and the facts about all tiles of a head                 rules.h
//        64 rows of Q to digits in shared memory; how far their          queries.cuh
//                scores can be apart, which decides between              tile_weights.cuh: SteadyWeights, NearWeights,
//                four codes for the same bytes                           FarWeights, AnyWeights
//
//        step of a tile of 64 keys, attend_tile()                        where
//     1  scores begin: digits of Q times digits of K                     Products: mma_groups.cu, wgmma_kernel.cuh
//     2     meanwhile the unit of a score in this tile                   tile_weights.cuh: scale()
//     3  scores end: levels to one integer x each                        Levels
//     4  the largest x of a row; weights, with their digits in           tile_weights.cuh: begin(), form_half()
//        the registers that the next products read
//     5  references, sums of weights                                     tile_weights.cuh: add_weights()
//     6  digits of weights times digits of V, part by part of the        Products
//        columns; each part's levels to one integer y, added to o        running_sums.cuh: add_value()
//
//        after the last tile: o / l to the output                        running_sums.cuh: store()
//        or o, l and the rest for another block                          wgmma_block.cuh, common/handover.cuh
//
// Where a thread's numbers are: row `lane / 4` of its warp's 16 and the one 8 below, of each 8 keys or columns two
// (digits.cuh). Tiles are copied to shared memory while others are computed: by cp.async (mma_block.cuh), or by bulk
// copies to a ring of stages that all groups of a block share (wgmma_block.cuh).
#pragma once

#include "src/gpu/fixed/forward/queries.cuh"
#include "src/gpu/fixed/forward/tile_weights.cuh"

namespace hw4::gpu::fixed_point {

// Facts about a group's rows and all tiles of their keys, known before the first tile.
struct Outlook {
    Spread spread;  // of the scores of a row in any tile, or wider: all give the same bytes
    bool steady;    // is_steady(), for all 64 rows, existing or not
    int k_exponent; // of all tiles, if steady
};

// Checks whether all is steady only with kMaySteady: the check takes time that short sequences do not give back.
template <bool kMaySteady, int kDim>
__device__ __forceinline__ Outlook outlook_of(const Queries<ThreeDigits, kDim>& queries, const HeadFacts& facts) {
    float square = 0;
#pragma unroll
    for (float of_warp : queries.longest_square) square = fmaxf(square, of_warp);
    const Spread spread = spread_of(uniform(2.0f * length_bound(square) * facts.longest_key));
    if constexpr (kMaySteady) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const int finest = warp_max(max(queries.exponent[lane], queries.exponent[lane + 32]));
        return {spread, is_steady(facts, finest), facts.k.largest()};
    }
    return {spread, false, 0};
}

// Sums of products of digits, by level.
template <int kN>
struct Levels {
    int32_t l[fixed::kDigits * kN];

    __device__ __forceinline__ int32_t combined(int i) const { return fixed::combined(l[2 * kN + i], l[kN + i], l[i]); }
};
using ScoreLevels = Levels<kScoresEach>;

// The scales of a thread's two rows of Q, in one register: the exponents or, if all is steady and scores are near, the
// factors that follow from them, which are below 2^14 then.
class PackedScales {
public:
    PackedScales() = default;
    __device__ PackedScales(int row0, int row1)
        : halves_((static_cast<uint32_t>(row0) & 0xffff) | static_cast<uint32_t>(row1) << 16) {}

    __device__ __forceinline__ int exponent(int row) const {
        return row == 0 ? static_cast<int16_t>(halves_) : static_cast<int>(halves_) >> 16;
    }

    __device__ void to_factors(int k_exponent) {
        const auto factor = [&](int row) { return (1 << fixed::kMostBits) >> (exponent(row) + k_exponent - 24); };
        *this = PackedScales(factor(0), factor(1));
    }
    __device__ __forceinline__ uint32_t factor(int row) const { return row == 0 ? halves_ & 0xffff : halves_ >> 16; }

private:
    uint32_t halves_;
};

// The work on a group's rows. Products computes the products of digits, and has the scales of a tile.
template <class Products>
struct Group {
    static constexpr bool kMasked = Products::kMasked; // whether rows may see less than all keys
    static constexpr int kParts = Products::Layout::kParts;
    static constexpr int kSums = Products::Layout::kColumns / 2; // in a thread: two rows

    using Running = RunningSums<RowReference, kParts, kSums>;

    Products products;
    PackedScales scales;
    RowPair pair;
    Running running;

    struct Told {}; // no arguments
    __device__ explicit Group(const Products& p, Told = {}) : products(p) {}

    // Called before the first tile of some rows.
    template <int kDim>
    __device__ void begin(const Queries<ThreeDigits, kDim>& queries) {
        take_scales(queries);
        running.clear();
    }

    // Tiles [first, end) of the rows' keys.
    template <int kDim>
    __device__ __forceinline__ void attend(const Queries<ThreeDigits, kDim>& queries, const ForwardArgs& args,
                                           const GroupRows& where, unsigned first, unsigned end,
                                           const HeadFacts& facts) {
        const Outlook outlook = outlook_of<Products::kMaySteady>(queries, facts);
        const unsigned whole_tiles =
            kMasked ? where.whole_tiles<ThreeDigits>(args) : static_cast<unsigned>(args.keys / fixed::kTileKeys);
        const unsigned whole = uniform(max(first, min(whole_tiles, end)));
        unsigned tile = uniform(first);
        const auto sight = [&] { return where.sight<ThreeDigits, kMasked>(args, tile, Products::seen_more(args)); };
        const int& least = queries.least_value; // read where it is needed, which saves a register
        // Whole tiles, or all tiles if rows may see some of them in part.
        const auto attend_near = [&](auto whole_weights) {
            using Whole = decltype(whole_weights);
            if constexpr (kMasked)
                attend_run(tile, end, least, [&] { return PartlySeen<Whole, decltype(sight)>(tile >= whole, sight); });
            else
                attend_run(tile, whole, least, [] { return Whole{}; });
        };
        if (Products::kMaySteady && outlook.spread == Spread::near && outlook.steady) {
            scales.to_factors(outlook.k_exponent);
            attend_near(SteadyWeights{});
            if (!kMasked) take_scales(queries); // for a tile that is not whole
        } else if (outlook.spread == Spread::near) {
            attend_near(NearWeights{});
        }
        if (outlook.spread != Spread::any)
            attend_run(tile, end, least, [&] { return FarWeights<kMasked>(sight()); });
        else
            attend_run(tile, end, least, [&] { return AnyWeights<kMasked>{sight(), {}, {}, {}}; });
    }

    template <int kDim>
    __device__ void store(const Queries<ThreeDigits, kDim>& queries, const ForwardArgs& args,
                          const GroupRows& where) const {
        const fixed::Factors scale = fixed::result_factors(24 - queries.least_value);
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            const float l = running.sum_of_lanes(row);
            const float inverse = !kMasked || l > 0 ? 1.0f / l : 0.0f; // 0: the row sees no key, and its sums are 0
            if (row_in_group(row) >= where.rows) continue;
            if (threadIdx.x % 4 == 0)
                args.store_statistics(where.unit, where.first + row_in_group(row),
                                      {running.reference[row].value(), 0.0f, l});
            running.store(row, FloatRow{static_cast<float*>(where.output<ThreeDigits>(args, row_in_group(row)))},
                          args.dim, inverse, scale);
        }
    }

private:
    template <int kDim>
    __device__ void take_scales(const Queries<ThreeDigits, kDim>& queries) {
        scales = PackedScales(queries.exponent[row_in_group(0)], queries.exponent[row_in_group(1)]);
    }

    // Tiles [tile, end). A tile's scores begin at the end of the loop rather than in attend_tile(): then the compiler
    // keeps more in registers.
    template <class MakeWeights>
    __device__ __forceinline__ void attend_run(unsigned& tile, unsigned end, const int& least,
                                               const MakeWeights& make_weights) {
        if (tile >= end) return;
        ScoreLevels s;
        products.begin_scores(tile, s);
        for (;;) {
            attend_tile(tile, s, least, make_weights());
            if (++tile == end) return;
            products.begin_scores(tile, s);
        }
    }

    // A tile with scores that have begun. Work that does not depend on the products in flight comes between their
    // beginning and their end.
    template <class Weights>
    __device__ __forceinline__ void attend_tile(unsigned tile, ScoreLevels& s, const int& least, Weights weights) {
        int v_lead = 0;
        if constexpr (Weights::kSteady) {
            weights.scale(scales.factor(0), scales.factor(1));
        } else {
            const TileScales of_tile = products.scales(tile);
            weights.scale({scales.exponent(0), scales.exponent(1)}, of_tile.k_exponent);
            v_lead = least - of_tile.v_exponent;
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

        float weight[kRowsEach];
        add_weights(running, weights, pair, v_lead, weight);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            Levels<kSums> y;
            products.begin_values(tile, part, planes, y);
            products.end_values(tile, part, y);
#pragma unroll
            for (int i = 0; i < kSums; ++i) running.add_value(part, i, y.combined(i), weight);
        }
        products.leave();
    }
};

} // namespace hw4::gpu::fixed_point
