// Under fixed: turns the scores of 64 rows and a tile of 64 keys into weights, from the registers in which the tensor
// cores leave scores to those from which they read weights.
#pragma once

#include "src/gpu/fixed/forward/digits.cuh"
#include "src/gpu/fixed/forward/running_sums.cuh"

namespace hw4::gpu::fixed_point {

constexpr int kScoresEach = kScoresOf<ThreeDigits>;

// The bytes of P as the products' left operand: for each half of the tile, 32 keys, four words for each place.
struct WeightPlanes {
    uint32_t half[2][fixed::kDigits][4];
};

// A number for each of a thread's rows.
struct RowNumbers {
    int of[kRowsEach];
};

// The state of a thread's two rows in a tile.
struct RowPair {
    int32_t largest[kRowsEach]; // x, after the cut
    int32_t sum[kRowsEach];     // of P, in this lane
};

__device__ __forceinline__ void find_largest(const int32_t (&x)[kScoresEach], RowPair& rows) {
    static_assert(kScoresEach == 2 * 16, "two rows of 16");
#pragma unroll
    for (int row = 0; row < kRowsEach; ++row)
        rows.largest[row] = largest_of_row(largest_of_16([&](int i) { return x[score_at(row, i)]; }));
}

// The score of a hidden key; all x are far above it. If it is a row's largest, the row sees nothing of the tile, and
// adds nothing to any sum: its reference is twice as far down as RowReference::none().
constexpr int32_t kNothing = INT32_MIN;
constexpr int kBelowAll = -(1 << 24); // quarters

// So far below the largest score P is 0, and the exponent of its float does not wrap.
constexpr int32_t kReach = 32;
static_assert(-kReach < fixed::kDeepest, "where P is 0");
static_assert((int64_t{kReach} << fixed::kMostBits) < 1 << 30, "no x is below -2^30");

__device__ __forceinline__ void hide(int32_t (&x)[kScoresEach], const TileSight& sight) {
#pragma unroll
    for (int i = 0; i < kScoresEach; ++i)
        if (!sight.sees(i)) x[i] = kNothing;
}

// How far apart a row's scores in a tile may be.
enum class Spread {
    near, // no weight is below 2^-149
    far,  // scores have fractions (F in the contract is at least 0)
    any,
};

// The spread of scores that differ by at most `most`, because none is larger than half of that: with the largest
// magnitudes A of Q's row and K of the tile, A * K is no larger either, and F is at least 18 - log2(A * K), or 18:
// never negative.
__device__ __forceinline__ Spread spread_of(float most) {
    return most <= 145.0f ? Spread::near : most <= 0x1p19f ? Spread::far : Spread::any;
}

// One load instead of comparisons.
static __constant__ float kQuarterPowers[4] = {fixed::quarter_power(1), fixed::quarter_power(2),
                                               fixed::quarter_power(3), fixed::quarter_power(4)};

// Weights of scores that have fractions. A score's value is its product with the row's factor, in units of 2^-23.
struct ScaledWeights {
    uint32_t factor[kRowsEach];
    uint32_t at[kRowsEach];
    int below[kRowsEach]; // the quarters that the largest score is above: M is their whole part

    __device__ __forceinline__ int reference(int row) const { return below[row]; }
    __device__ __forceinline__ float part(int row) const { return kQuarterPowers[below[row] & 3]; }

    // The exponent of 2^n, added to kappa_exp2's, is the one of `bits` less that of g: y * 2^n, exactly, since neither
    // is denormal.
    __device__ __forceinline__ uint32_t word(int32_t x, int, int row) const {
        const uint32_t bits = static_cast<uint32_t>(x) * factor[row] + at[row];
        const float g = fixed::with_fraction_of(bits);
        return static_cast<uint32_t>(fixed::nearest(float_of(bits_of(fixed::kappa_exp2(g)) + bits - bits_of(g))));
    }

protected:
    // `quarters`: those below the largest score.
    __device__ __forceinline__ void measure_from(int row, int quarters) {
        constexpr uint32_t kAtZero = (static_cast<uint32_t>(fixed::kPowerBias) << 23) - (1u << 21);
        below[row] = quarters;
        at[row] = kAtZero - (static_cast<uint32_t>(quarters) << 21);
        asm("" : "+r"(factor[row])); // one multiply-add rather than a shift and an addition
    }

    // For scores near 0: the largest, times the factor, fits 32 bits.
    __device__ __forceinline__ void measure_near(const int32_t (&x)[kScoresEach], RowPair& rows) {
        find_largest(x, rows);
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row)
            measure_from(row, static_cast<int>(static_cast<uint32_t>(rows.largest[row]) * factor[row]) >> 21);
    }
};

// Weights of tiles in which all keys exist, scores are near each other, and is_steady() holds.
struct SteadyWeights : ScaledWeights {
    static constexpr bool kSteady = true;

    __device__ __forceinline__ void scale(uint32_t factor0, uint32_t factor1) {
        factor[0] = factor0;
        factor[1] = factor1;
    }

    __device__ __forceinline__ void cut_and_scale(const int32_t (&)[kScoresEach]) {}
    __device__ __forceinline__ void begin(const int32_t (&x)[kScoresEach], RowPair& rows) { measure_near(x, rows); }
};

// Weights of tiles in which all keys exist and scores are near each other.
struct NearWeights : ScaledWeights {
    static constexpr bool kSteady = false;
    int bits[kRowsEach]; // of the scores' fractions
    bool any_too_fine;   // in the warp: finer than the least unit

    __device__ __forceinline__ void scale(const RowNumbers& q_exponent, int k_exponent) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) bits[row] = q_exponent.of[row] + k_exponent - 24;
        any_too_fine = __any_sync(~0u, bits[0] > fixed::kMostBits || bits[1] > fixed::kMostBits);
    }

    __device__ __forceinline__ void cut_and_scale(int32_t (&x)[kScoresEach]) {
        cut(x);
        find_factors();
    }
    __device__ __forceinline__ void begin(int32_t (&x)[kScoresEach], RowPair& rows) {
        cut_and_scale(x);
        measure_near(x, rows);
    }

private:
    __device__ __forceinline__ void find_factors() {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) factor[row] = (1u << fixed::kMostBits) >> bits[row];
    }

    // Cuts scores that are finer than the least unit.
    __device__ __forceinline__ void cut(int32_t (&x)[kScoresEach]) {
        if (__builtin_expect(!any_too_fine, 1)) return;
        int places[kRowsEach];
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            places[row] = max(0, bits[row] - fixed::kMostBits);
            bits[row] -= places[row];
        }
#pragma unroll
        for (int i = 0; i < kScoresEach; ++i) x[i] >>= min(places[row_of(i)], 31);
    }
};

// Either of these, for tiles that rows may see in part. It is one code for these and the whole tiles: separate code,
// which every row of tiles would use a little, would be fetched again and again.
template <class Whole, class SightOf>
struct PartlySeen : Whole {
    bool in_part; // the same for the whole warp
    const SightOf& sight_of;

    __device__ __forceinline__ PartlySeen(bool part, const SightOf& of) : in_part(part), sight_of(of) {}

    __device__ __forceinline__ void begin(int32_t (&x)[kScoresEach], RowPair& rows) {
        Whole::cut_and_scale(x);
        if (in_part) hide(x, sight_of());
        Whole::measure_near(x, rows);
        if (in_part) lower_hidden(x, rows);
    }

private:
    // Lowers hidden scores to where P is 0.
    __device__ __forceinline__ void lower_hidden(int32_t (&x)[kScoresEach], const RowPair& rows) {
        uint32_t lowered[kRowsEach];
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            constexpr uint32_t kReachScaled = static_cast<uint32_t>(kReach) << fixed::kMostBits; // by the factor
            lowered[row] = static_cast<uint32_t>(rows.largest[row]) - (kReachScaled >> (31 - __clz(this->factor[row])));
            if (rows.largest[row] == kNothing) this->below[row] = kBelowAll;
        }
#pragma unroll
        for (int i = 0; i < kScoresEach; ++i)
            if (x[i] == kNothing) x[i] = static_cast<int32_t>(lowered[row_of(i)]);
    }
};

// Weights of tiles in which scores have fractions. Hidden scores, and scores more than 32 below the largest, are raised
// to 32 below it: the weight is 0 there, too, and the exponent of its float cannot wrap.
template <bool kMasked>
struct FarWeights : NearWeights {
    TileSight sight;

    __device__ __forceinline__ explicit FarWeights(const TileSight& of_tile) : sight(of_tile) {}

    __device__ __forceinline__ void begin(int32_t (&x)[kScoresEach], RowPair& rows) {
        cut_and_scale(x);
        if (!sight.all<ThreeDigits>()) hide(x, sight);
        find_largest(x, rows);
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            const bool empty = kMasked && rows.largest[row] == kNothing;
            if (kMasked) rows.largest[row] = max(rows.largest[row], kLeast);
            measure_from(row, static_cast<int>((int64_t{4} * rows.largest[row]) >> bits[row]));
            if (empty) below[row] = kBelowAll;
        }
#pragma unroll
        for (int i = 0; i < kScoresEach; ++i) x[i] = max(x[i], rows.largest[row_of(i)] - (kReach << bits[row_of(i)]));
    }

private:
    static constexpr int32_t kLeast = -(1 << 30); // of all x
};

// Weights of any tile.
template <bool kMasked>
struct AnyWeights {
    static constexpr bool kSteady = false;
    TileSight sight;
    fixed::Unit unit[kRowsEach];
    fixed::TileTop top[kRowsEach];
    bool empty[kRowsEach];

    __device__ __forceinline__ void scale(const RowNumbers& q_exponent, int k_exponent) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) unit[row] = fixed::unit_of(q_exponent.of[row], k_exponent);
    }

    __device__ __forceinline__ void begin(int32_t (&x)[kScoresEach], RowPair& rows) {
#pragma unroll
        for (int i = 0; i < kScoresEach; ++i) x[i] = sight.sees(i) ? x[i] >> unit[row_of(i)].cut : kNothing;
        find_largest(x, rows);
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row) {
            empty[row] = kMasked && rows.largest[row] == kNothing;
            top[row] = fixed::tile_top(rows.largest[row], unit[row]);
        }
    }

    __device__ __forceinline__ float reference(int row) const {
        return empty[row] ? -HUGE_VALF : fixed::tile_reference(top[row], unit[row]);
    }
    __device__ __forceinline__ float part(int row) const { return fixed::quarter_power(top[row].quarters); }

    __device__ __forceinline__ uint32_t word(int32_t x, int key, int row) const {
        return key < sight.of(row) ? static_cast<uint32_t>(fixed::weight_of(x, top[row], unit[row])) : 0;
    }
};

// The weights of 32 keys, the first or the second half of a tile; adds their P to the rows' sums.
template <class Weights>
__device__ __forceinline__ void form_half(const int32_t (&x)[kScoresEach], int half, RowPair& rows,
                                          const Weights& weight, uint32_t (&words)[fixed::kDigits][4]) {
#pragma unroll
    for (int row = 0; row < kRowsEach; ++row)
#pragma unroll
        for (int group = 0; group < 2; ++group) {
            const int first = 2 * half + group; // of the tile's groups of 16
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int score = score_at(row, 4 * first + i);
                w[i] = weight.word(x[score], key_of(score), row);
            }
            rows.sum[row] += static_cast<int32_t>(w[0] + w[1]);
            rows.sum[row] += static_cast<int32_t>(w[2] + w[3]);
            const auto digits = planes_of<fixed::kDigits>(w[0], w[1], w[2], w[3]);
#pragma unroll
            for (int place = 0; place < fixed::kDigits; ++place) words[place][2 * group + row] = digits.word[place];
        }
}

__device__ __forceinline__ void clear_sums(RowPair& rows) {
#pragma unroll
    for (int32_t& sum : rows.sum) sum = 0;
}

// ---- Under fixed: a row's reference, and how a tile's weights change it and the sums

// R of a row. If scores have fractions, all M are integers far below 2^24, and R is stored as an integer, in quarters
// like the largest scores that it is compared with, which takes fewer instructions and gives the same bits; else as a
// float. All tiles of a row are of the same kind.
struct RowReference {
    float held; // the float, or an integer's bits, which may be those of a NaN: they are only moved

    // Below all M: minus infinity as a float, and -2^23 quarters as an integer, since no score is beyond 2^18.
    static __device__ RowReference none() { return {-HUGE_VALF}; }

    // How far M is above R, in powers of two.
    __device__ __forceinline__ float lead_of(float M) const { return M - held; }
    __device__ __forceinline__ int lead_of(int quarters) const { return (quarters - integer()) >> 2; }

    __device__ __forceinline__ bool is_raised_by(float M) const { return fixed::raises(M, held); }
    __device__ __forceinline__ bool is_raised_by(int quarters) const {
        return quarters - integer() >= 4 * (static_cast<int>(fixed::kReferenceSlack) + 1);
    }
    // The bits tell which of the two it is: the integers are the bits of denormals and NaNs, and no M has these.
    __device__ __forceinline__ float value() const {
        constexpr int kBeyond = 1 << 23;
        const bool is_integer = integer() >= -kBeyond && integer() < kBeyond;
        return is_integer ? static_cast<float>(integer() >> 2) : held;
    }

    __device__ __forceinline__ void set(float M) { held = M; }
    __device__ __forceinline__ void set(int quarters) { held = float_of(static_cast<uint32_t>(quarters & ~3)); }

private:
    __device__ __forceinline__ int integer() const { return static_cast<int>(bits_of(held)); }
};

// Adds to l and h; computes the factors of the tile's values.
template <class Weights, int kParts, int kSums>
__device__ __forceinline__ void add_weights(RunningSums<RowReference, kParts, kSums>& running, const Weights& weights,
                                            const RowPair& pair, int v_lead, float (&weight)[kRowsEach]) {
    using Reference = decltype(weights.reference(0));
    Reference M[kRowsEach];
    bool raised = false;
#pragma unroll
    for (int row = 0; row < kRowsEach; ++row) {
        M[row] = weights.reference(row);
        raised |= running.reference[row].is_raised_by(M[row]);
    }
    if (__builtin_expect(__any_sync(~0u, raised), 0)) {
#pragma unroll
        for (int row = 0; row < kRowsEach; ++row)
            if (running.reference[row].is_raised_by(M[row])) {
                running.rescale(row, fixed::weight_of_tile(-running.reference[row].lead_of(M[row])));
                running.reference[row].set(M[row]);
            }
    }
#pragma unroll
    for (int row = 0; row < kRowsEach; ++row) {
        const Reference lead = running.reference[row].lead_of(M[row]);
        const float part = weights.part(row);
        running.l[row] = fused(static_cast<float>(pair.sum[row]), part * fixed::weight_of_tile(lead), running.l[row]);
        weight[row] = part * fixed::weight_of_tile(lead + static_cast<Reference>(v_lead));
        running.h[row] += weight[row];
    }
}

} // namespace hw4::gpu::fixed_point
