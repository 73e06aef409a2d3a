// The work of a group of 128 threads on its 64 query rows under fixed16: weights tile after tile, running sums, output.
// Where a thread's numbers are: src/gpu/fixed/forward/digits.cuh. src/gpu/fixed/forward/group.cuh has the map of what
// comes before and after.
//
// A tile: scores begin at 1.5 * 2^23, so that the integers of the tensor cores are floats without a conversion; then
// the largest score of a row; then weights, 32 keys at a time, with their digits in the registers that the products
// with V read; while the first half's weights are multiplied, the second half's are made.
#pragma once

#include "src/gpu/fixed/forward/prepare.h"
#include "src/gpu/fixed/forward/queries.cuh"
#include "src/gpu/fixed/forward/running_sums.cuh"
#include "src/gpu/fixed16/forward/powers.cuh"

namespace hw4::gpu::fixed_point {

constexpr int kPairScores = kScoresOf<TwoDigits>;     // of a thread and a tile
constexpr int kPairSteps = TwoDigits::kTileKeys / 32; // of 32 keys, one product each
constexpr int32_t kScoreStart = 0x4b400000;           // the bits of 1.5 * 2^23
constexpr int kLeastPlainBits = 8;                    // from this F on all exponents are exact in one fma
constexpr int32_t kHiddenScore = -(1 << 30);          // of a hidden key: P is 0
// The same for scores as floats: the bits of -2^100. Times a plain unit it is finite, and far below any P but 0.
constexpr int32_t kHiddenFloat = static_cast<int32_t>(0xf1800000);

// Sums of products of digits, [L1 | L0].
template <int kN>
struct TwoLevels {
    int32_t l[2 * kN];

    __device__ __forceinline__ int32_t combined(int i) const { return fixed16::combined(l[kN + i], l[i]); }
};
using PairLevels = TwoLevels<kPairScores>;

struct FloatReference {
    float held;

    static __device__ FloatReference none() { return {-HUGE_VALF}; }
};

// The bytes of P of 32 keys, as the products' left operand.
struct StepWords {
    uint32_t low[4];
    uint32_t high[4];
};

// How the scores of a thread's rows become weights: 2^(score as a float * unit + top).
struct PairWeights {
    float unit[kRowsEach];
    float top[kRowsEach];
    float m[kRowsEach]; // minus infinity: the row sees nothing of the tile
};

template <class Products, class Powers>
struct PairGroup {
    static constexpr bool kMasked = Products::kMasked; // whether rows may see less than all keys
    static constexpr bool kManyJobs = Products::kManyJobs;
    static constexpr int kParts = Products::Layout::kParts;
    static constexpr int kSums = Products::Layout::kColumns / 2; // in a thread: two rows
    static constexpr Facts kFacts = Facts::all;
    using Running = RunningSums<FloatReference, kParts, kSums>;
    using Told = Powers;
    using Sums = TwoLevels<kSums>;

    Products products;
    Powers powers;
    Running running;
    int exponent[kRowsEach];

    __device__ PairGroup(const Products& p, const Powers& of) : products(p), powers(of) {}

    // Called before the first tile of some rows.
    template <int kDim>
    __device__ void begin(const Queries<TwoDigits, kDim>& queries) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) exponent[row] = queries.exponent[row_in_group<kManyJobs>(row)];
        running.clear();
    }

    // Tiles [first, end) of the rows' keys.
    template <int kDim, class Rows>
    __device__ __forceinline__ void attend(const Queries<TwoDigits, kDim>& queries, const ForwardArgs& args,
                                           const Rows& where, unsigned first, unsigned end, const HeadFacts& facts) {
        constexpr int kKeys = TwoDigits::kTileKeys;
        const unsigned whole_tiles =
            kMasked ? where.template whole_tiles<TwoDigits>(args) : static_cast<unsigned>(args.keys / kKeys);
        const unsigned whole = uniform(max(first, min(whole_tiles, end)));
        unsigned tile = uniform(first);
        if (!(kMasked && kManyJobs) &&
            is_steady(queries, facts)) { // short jobs wait for instructions: one loop has fewer
            const float unit[] = {fixed::power(16 - exponent[0] - facts.k.largest()),
                                  fixed::power(16 - exponent[1] - facts.k.largest())};
            attend_run<kPairScores>(tile, whole, [&](int32_t(&x)[kPairScores], float& v_weight) {
                v_weight = 1;
                return plain_weights(x, unit);
            });
        }
        const auto sight = [&] {
            return where.template sight<TwoDigits, kMasked>(args, tile, Products::seen_more(args));
        };
        const int& least = queries.least_value; // read where it is needed, which saves a register
        const auto weigh = [&](auto& x, float& v_weight) {
            const TileScales of_tile = products.scales(tile);
            v_weight = fixed16::value_weight(least - of_tile.v_exponent);
            const int bits[] = {exponent[0] + of_tile.k_exponent - 16, exponent[1] + of_tile.k_exponent - 16};
            if ((kMasked || tile < whole) && __all_sync(~0u, is_plain(bits[0]) && is_plain(bits[1]))) {
                const float unit[] = {fixed::power(-bits[0]), fixed::power(-bits[1])};
                if (kMasked && tile >= whole) hide(x, sight());
                return plain_weights(x, unit);
            }
            return any_weights(x, of_tile.k_exponent, sight());
        };
        if constexpr (kMasked && kManyJobs) {
            const bool half = tile < end && where.sees_half(end - 1);
            attend_run<kPairScores>(tile, half ? end - 1 : end, weigh);
            if (half) attend_run<kPairScores / 2>(tile, end, weigh);
        } else {
            attend_run<kPairScores>(tile, end, weigh);
        }
    }

    template <int kDim>
    __device__ void store(const Queries<TwoDigits, kDim>& queries, const ForwardArgs& args,
                          const GroupRows& where) const {
        const fixed::Factors scale = fixed::result_factors(16 - queries.least_value);
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            const float l = running.sum_of_lanes(row);
            const float inverse = !kMasked || l > 0 ? 1.0f / l : 0.0f; // 0: the row sees no key, and its sums are 0
            if (row_in_group(row) >= where.rows) continue;
            if (threadIdx.x % 4 == 0)
                args.store_statistics(where.unit, where.first + row_in_group(row),
                                      {running.reference[row].held, 0.0f, l});
            void* const to = where.output<TwoDigits>(args, row_in_group(row));
            if (args.is_narrow())
                running.store(row, NarrowRow{static_cast<uint16_t*>(to), args.element}, args.dim, inverse, scale);
            else
                running.store(row, FloatRow{static_cast<float*>(to)}, args.dim, inverse, scale);
        }
    }

    // The facts about finished rows, besides their sums.
    struct Ends {
        RowEnd of_row[kRowsEach];
    };
    // fmaxf() changes nothing, since h is a sum of weights, but h is then not loaded from local memory together with
    // the next rows of Q: their loads share a counter, and results would be stored only once all rows have arrived.
    __device__ __forceinline__ Ends ends() const {
        const float l[] = {running.sum_of_lanes(0), running.sum_of_lanes(1)};
        return {{{fmaxf(running.h[0], 0.0f), 1.0f / l[0]}, {fmaxf(running.h[1], 0.0f), 1.0f / l[1]}}};
    }

    // Stores the rows of a group of a KnownPart (wgmma_whole.cuh).
    template <int kDim, class Part>
    __device__ __forceinline__ void store_whole(const Queries<TwoDigits, kDim>& queries, const ForwardArgs& args,
                                                const Part& part, int place, const Ends& ends) const {
        using Stored = typename Part::Stored;
        const fixed::Factors scale = fixed::result_factors(16 - queries.least_value);
        const auto store = [&](const auto& output_row) {
#pragma unroll
            for (int row = 0; row < kRowsEach; ++row) {
                const int of_job = place * kGroupRows + row_in_group<kManyJobs>(row);
                if (of_job >= part.rows) continue;
                Stored* const to = row_behind(part.out, static_cast<uint32_t>(of_job),
                                              static_cast<uint32_t>(args.out.row * sizeof(Stored)));
                running.store_whole(row, output_row(to), ends.of_row[row], scale);
            }
        };
        if constexpr (sizeof(Stored) == sizeof(float))
            store([](float* to) { return FloatRow{to}; });
        else if (!kMasked) // code for each type would change the registers of the loop over tiles, and slow it down
            store([&](uint16_t* to) { return NarrowRow{to, args.element}; });
        else if (args.element == Element::bf16)
            store([](uint16_t* to) { return NarrowRow{to, Element::bf16}; });
        else
            store([](uint16_t* to) { return NarrowRow{to, Element::fp16}; });
    }

private:
    static __device__ __forceinline__ bool is_plain(int bits) {
        return bits >= kLeastPlainBits && bits <= fixed16::kFractionBits;
    }

    // Whether scores of all 64 rows have the same plain unit in all tiles, and values too.
    template <int kDim>
    static __device__ __forceinline__ bool is_steady(const Queries<TwoDigits, kDim>& queries, const HeadFacts& facts) {
        const int lane = thread_number<kManyJobs>() % 32;
        const int coarsest = -warp_max(-min(queries.exponent[lane], queries.exponent[lane + 32]));
        return facts.k.is_one() && facts.v.is_one() && coarsest + facts.k.largest() - 16 >= kLeastPlainBits;
    }

    // The largest score of each row.
    template <int kScores>
    static __device__ __forceinline__ void find_largest(const int32_t (&x)[kScores], int32_t (&largest)[kRowsEach]) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            largest[row] = largest_of_16([&](int i) { return x[score_at(row, i)]; });
            if constexpr (kScores == kPairScores)
                largest[row] = max(largest[row], largest_of_16([&](int i) { return x[score_at(row, 16 + i)]; }));
            largest[row] = largest_of_row(largest[row]);
        }
    }

    // Gives hidden keys a score so far below all others that P is 0.
    template <int kScores>
    static __device__ __forceinline__ void hide(int32_t (&x)[kScores], const TileSight& sight) {
#pragma unroll
        for (int i = 0; i < kScores; ++i) x[i] = sight.sees(i) ? x[i] : kHiddenFloat;
    }

    // For tiles with F from 8 to 12: every number here but those of hidden keys is a multiple of 2^-F below
    // 2^(24 - F), and exact.
    template <int kScores>
    static __device__ __forceinline__ PairWeights plain_weights(const int32_t (&x)[kScores],
                                                                const float (&unit)[kRowsEach]) {
        int32_t largest[kRowsEach];
        find_largest(x, largest);
        PairWeights weights;
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            const bool empty = kMasked && largest[row] == kHiddenFloat;
            const float biased = empty ? 0.0f : float_of(static_cast<uint32_t>(largest[row]));
            weights.unit[row] = unit[row];
            weights.top[row] = fused(-biased, unit[row], fixed16::kTop);
            weights.m[row] = empty ? -HUGE_VALF : (biased - kRoundToInt) * unit[row];
        }
        return weights;
    }

    // For any tile: turns scores into floats relative to the largest.
    template <int kScores>
    __device__ __forceinline__ PairWeights any_weights(int32_t (&x)[kScores], int k_exponent,
                                                       const TileSight& sight) const {
        const fixed16::Unit unit[] = {fixed16::unit_of(exponent[0], k_exponent),
                                      fixed16::unit_of(exponent[1], k_exponent)};
#pragma unroll
        for (int i = 0; i < kScores; ++i)
            x[i] = sight.sees(i) ? (x[i] - kScoreStart) >> unit[row_of(i)].cut : kHiddenScore;
        int32_t largest[kRowsEach];
        find_largest(x, largest);
        PairWeights weights;
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            const bool empty = largest[row] == kHiddenScore;
            weights.unit[row] = unit[row].value;
            weights.top[row] = fixed16::kTop;
            weights.m[row] = empty ? -HUGE_VALF : static_cast<float>(largest[row]) * unit[row].value;
            if (empty) largest[row] = 0;
        }
#pragma unroll
        for (int i = 0; i < kScores; ++i)
            x[i] = static_cast<int32_t>(bits_of(static_cast<float>(x[i] - largest[row_of(i)])));
        return weights;
    }

    // Tiles [tile, end), or the first halves of their keys.
    template <int kScores, class Weigh>
    __device__ __forceinline__ void attend_run(unsigned& tile, unsigned end, const Weigh& weigh) {
        for (; tile < end; ++tile) {
            TwoLevels<kScores> s;
            products.begin_scores(tile, s);
            products.end_scores(tile, s);
            int32_t x[kScores];
#pragma unroll
            for (int i = 0; i < kScores; ++i) x[i] = s.combined(i);
            float v_weight;
            const PairWeights weights = weigh(x, v_weight);
            attend_tile(tile, x, weights, v_weight);
        }
    }

    // Running sums of weights: of the bits of floats that include 2^23 and, in every second float, kUpper.
    static constexpr int kUpper = 0xb500; // subtracts 0x4b00, the upper half of the other word of a pair
    template <int kScores>
    static constexpr uint32_t kSumStart = 0u - kScores / 2 * kInteger - kScores / 4 * kUpper;

    // The weights of 32 keys.
    template <int kScores>
    __device__ __forceinline__ void form(const int32_t (&x)[kScores], int step, const PairWeights& weights,
                                         StepWords& words, uint32_t (&sum)[kRowsEach]) const {
        powers.choose([&](auto by) { form_by(by, x, step, weights, words, sum); });
    }
    template <class By, int kScores>
    static __device__ __forceinline__ void form_by(By, const int32_t (&x)[kScores], int step,
                                                   const PairWeights& weights, StepWords& words,
                                                   uint32_t (&sum)[kRowsEach]) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row)
#pragma unroll
            for (int group = 0; group < 2; ++group) {
                uint32_t w[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int32_t score = x[score_at(row, 8 * step + 4 * group + i)];
                    const float exponent =
                        fused(float_of(static_cast<uint32_t>(score)), weights.unit[row], weights.top[row]);
                    w[i] = By::weight_word(exponent, i % 2 == 0 ? 0 : kUpper);
                }
                sum[row] += w[0] + w[1];
                sum[row] += w[2] + w[3];
                // Packs two weights into a word, in a pipe with less work than that of byte permutations.
                uint32_t ab;
                uint32_t cd;
                asm("mad.lo.u32 %0, %1, 65536, %2;" : "=r"(ab) : "r"(w[1]), "r"(w[0]));
                asm("mad.lo.u32 %0, %1, 65536, %2;" : "=r"(cd) : "r"(w[3]), "r"(w[2]));
                words.low[2 * group + row] = __byte_perm(ab, cd, 0x6420);
                words.high[2 * group + row] = __byte_perm(ab, cd, 0x7531);
            }
    }

    __device__ __forceinline__ float tile_weight(float lead) const {
        float weight;
        powers.choose([&](auto by) { weight = decltype(by)::tile_weight(lead); });
        return weight;
    }

    // Raises references. The branch is hardly ever taken, and also keeps the code after it from moving before the
    // products in flight.
    __device__ __forceinline__ void raise(const float (&m)[kRowsEach]) {
        const bool raised =
            fixed16::raises(m[0], running.reference[0].held) || fixed16::raises(m[1], running.reference[1].held);
        if (__builtin_expect(__any_sync(~0u, raised), 0)) {
#pragma unroll
            for (int row = 0; row < kRowsEach; ++row)
                if (fixed16::raises(m[row], running.reference[row].held)) {
                    if (!kManyJobs || running.reference[row].held > -HUGE_VALF) // else all sums are 0
                        running.rescale(row, tile_weight(running.reference[row].held - m[row]));
                    running.reference[row].held = m[row];
                }
        }
    }

    // Adds to l and h; computes the factors of the tile's values.
    __device__ __forceinline__ void add_weights(const PairWeights& weights, const uint32_t (&sum)[kRowsEach],
                                                float v_weight, float (&weight)[kRowsEach]) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            float w = tile_weight(weights.m[row] - running.reference[row].held);
            if (kMasked && weights.m[row] == -HUGE_VALF) w = 0;
            running.l[row] = fused(static_cast<float>(static_cast<int32_t>(sum[row])), w, running.l[row]);
            weight[row] = w * v_weight;
            running.h[row] += weight[row];
        }
    }

    // A tile with finished scores, as floats' bits.
    template <int kScores>
    __device__ __forceinline__ void attend_tile(unsigned tile, const int32_t (&x)[kScores], const PairWeights& weights,
                                                float v_weight) {
        constexpr int kHalves = 2 * kScores / kPairScores;
        uint32_t sum[kRowsEach] = {kSumStart<kScores>, kSumStart<kScores>};
        StepWords words[kPairSteps];
        Sums y;
        if constexpr (kParts == 1) {
#pragma unroll
            for (int half = 0; half < kHalves; ++half) {
                if (half + 1 == kHalves) raise(weights.m);
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i) form(x, i, weights, words[i], sum);
                products.template add_values<2>(tile, 0, 2 * half, words, y);
            }
        } else {
            raise(weights.m);
#pragma unroll
            for (int i = 0; i < kPairSteps; ++i) form(x, i, weights, words[i], sum);
            products.template add_values<kPairSteps>(tile, 0, 0, words, y);
        }
        float weight[kRowsEach];
        add_weights(weights, sum, v_weight, weight);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            if (part > 0) products.template add_values<kPairSteps>(tile, part, 0, words, y);
            products.end_values(tile, part, y);
#pragma unroll
            for (int i = 0; i < kSums; ++i) running.add_value(part, i, y.combined(i), weight);
        }
        products.leave();
    }
};

} // namespace hw4::gpu::fixed_point
