// From scores to weights under the contracts of digits, a lane for each row, with the vector operations of
// attention_simd.h.
#pragma once

#include "src/contracts/fixed/rules.h"
#include "src/cpu/fixed/exp2_segments.h"

namespace hw4::cpu {

// The factors of a tile in the sums of the rows of a vector (TileWeights).
template <class F>
struct VectorTileWeights {
    F sums;
    F values;
};

// `part` is the factor of a tile's weights besides 2^m, and 0 where a row sees nothing of the tile. The numbers in
// Weighing turn a score into a weight; `cut` is applied before.
template <class Rules, class V>
struct VectorWeights;

// fixed::quarter_power of 1 to 4, as the bits of floats.
struct QuarterBits {
    uint32_t of[5];
};

constexpr QuarterBits quarter_bits() {
    QuarterBits bits{};
    for (int i = 1; i <= 4; ++i)
        bits.of[i] = 0x3f800000u + static_cast<uint32_t>((fixed::quarter_power(i) - 1.0f) * 0x1p23f);
    return bits;
}

constexpr QuarterBits kQuarterBits = quarter_bits();

template <class V>
struct VectorWeights<FixedRules, V> {
    using F = typename V::F;
    using I = typename V::I;
    static constexpr int kLeastWeightBits = 5; // weights below 2^-2^5 are replaced by it: P is 0
    static_assert(-(1 << kLeastWeightBits) < fixed::kDeepest);

    // A weight's bits, as for fixed::weight_of_power, are its score shifted left, plus `at`, whether scores have a
    // fraction or not: higher bits drop out modulo 2^32, and the floor keeps the exponent within a float's.
    struct Weighing {
        I cut, floor, left, at;
    };

    static HW4_INLINE F power(I exponent) { return (exponent + I(127)).template shifted_left<23>().as_float(); }
    static HW4_INLINE F power_of_two(F k) { return power(nearest(larger(k, F(-127.0f)))); }
    static HW4_INLINE I clamped(I x, int32_t from, int32_t to) { return smaller(larger(x, I(from)), I(to)); }

    // fixed::Unit and numbers that follow from it, from the exponents of rows and a tile and the rows' largest scores.
    static HW4_INLINE Weighing weighing_for(I q_exponent, int k_exponent, I largest, float* m, float* part) {
        const I f = q_exponent + I(k_exponent - FixedRules::kUnitBits);
        const I bits = clamped(f, 0, fixed::kMostBits);
        const I apart = clamped(I(0) - f, 0, kLeastWeightBits); // a difference of 1 is 2^this, or too much
        Weighing by;
        by.cut = clamped(f - I(fixed::kMostBits), 0, 31);
        by.left = I(fixed::kMostBits) - bits + apart;
        const I x = largest.shifted_right(by.cut);
        const I whole = x.shifted_right(bits);
        const I fraction = x - whole.shifted_left(bits);
        const I quarters = fraction.template shifted_left<2>().shifted_right(bits) + I(1);
        V::gathered(kQuarterBits.of, quarters).as_float().store(part);
        (to_float(whole) * power(clamped(I(0) - f, 0, 127))).store(m);
        by.at = (I(fixed::kPowerBias) - whole.shifted_left(apart)).template shifted_left<fixed::kMostBits>() -
                quarters.template shifted_left<fixed::kMostBits - 2>();
        const I deepest = whole - I(1 << kLeastWeightBits).shifted_right(apart);
        by.floor = deepest.shifted_left(bits); // no x is below -2^30
        return by;
    }

    static HW4_INLINE I weight_of(I x, const Weighing& by) {
        const I bits = larger(x, by.floor).shifted_left(by.left) + by.at;
        return nearest(fixed::weight_value(with_fraction_of(bits), with_exponent_of(bits)));
    }

    static HW4_INLINE bool any_raised(F m, F row_reference) {
        return any_above(m, row_reference + F(fixed::kReferenceSlack));
    }
    static HW4_INLINE VectorTileWeights<F> tile_weights(F part, F lead, int less_v) {
        return {part * power_of_two(lead), part * power_of_two(lead + F(static_cast<float>(less_v)))};
    }
};

// 2^(i/4096) as a float's bits, minus i * 2^11: plus n * 2^11 they are the bits of 2^(n/4096), n >= -126 * 4096.
struct Exp2Bits {
    uint32_t less[fixed16::kTableSize];
};

constexpr Exp2Bits exp2_bits() {
    Exp2Bits bits{};
    for (uint32_t i = 0; i < fixed16::kTableSize; ++i)
        bits.less[i] = 0x3f800000u + fixed16::kExp2Table.fraction[i] - (i << (23 - fixed16::kFractionBits));
    return bits;
}

constexpr Exp2Bits kExp2Bits = exp2_bits();

template <class V>
struct VectorWeights<Fixed16Rules, V> {
    using F = typename V::F;
    using I = typename V::I;
    static constexpr int kLeastWeightBits =
        17; // in units of 2^-12, weights below 2^(16 - 2^5) are replaced by it: P is 0
    static constexpr int32_t kTopUnits = static_cast<int32_t>(fixed16::kTop * fixed16::kTableSize);
    static_assert(kTopUnits - (1 << kLeastWeightBits) < -fixed16::kTableSize);

    // A weight's exponent is its score shifted left, plus `at`. For powers by segments it is the bits of a float:
    // shifted further to the left and with a bias.
    static constexpr int kFurther = V::kExp2BySegments ? 23 - fixed16::kFractionBits : 0;
    static constexpr int32_t kBias = V::kExp2BySegments ? 127 << 23 : 0;
    struct Weighing {
        I cut, floor, left, at;
    };

    static HW4_INLINE I clamped(I x, int32_t from, int32_t to) { return smaller(larger(x, I(from)), I(to)); }

    static HW4_INLINE Weighing weighing_for(I q_exponent, int k_exponent, I largest, float* m, float* part) {
        const I f = q_exponent + I(k_exponent - Fixed16Rules::kUnitBits);
        Weighing by;
        by.cut = clamped(f - I(fixed16::kFractionBits), 0, 31);
        by.left = clamped(I(fixed16::kFractionBits) - f, 0, kLeastWeightBits); // a difference of 1 is too much there
        const I x = largest.shifted_right(by.cut);
        by.at = (I(kTopUnits) - x.shifted_left(by.left)).template shifted_left<kFurther>() + I(kBias);
        by.floor = x - I(1 << kLeastWeightBits).shifted_right(by.left);
        by.left = by.left + I(kFurther);
        const I value = clamped(I(0) - f, -fixed16::kFractionBits, 127) + I(127);
        (to_float(x) * value.template shifted_left<23>().as_float()).store(m);
        F(1.0f).store(part);
        return by;
    }

    // For any exponent in units of 2^-12 from -126 * 4096 to 127 * 4096. 2^x is right below 0 too: it rounds to 1 above
    // 2^-1, else to 0.
    static HW4_INLINE F exp2_at(I exponent) {
        const I less = V::gathered(kExp2Bits.less, exponent & I(fixed16::kTableSize - 1));
        return (exponent.template shifted_left<23 - fixed16::kFractionBits>() + less).as_float();
    }

    static HW4_INLINE I weight_of(I x, const Weighing& by) {
        const I exponent = larger(x, by.floor).shifted_left(by.left) + by.at;
        if constexpr (V::kExp2BySegments)
            return nearest(exp2_by_segments<V>(exponent));
        else
            return nearest(exp2_at(exponent));
    }

    static HW4_INLINE bool any_raised(F m, F row_reference) {
        return any_above(m - row_reference, F(fixed16::kReferenceSlack));
    }
    static HW4_INLINE VectorTileWeights<F> tile_weights(F part, F lead, int less_v) {
        const F units = larger(lead - F(fixed16::kLeastLead), F(0.0f)) * F(float{fixed16::kTableSize});
        const F weight = part * (exp2_at(nearest(units)) * F(0x1p-96f));
        return {weight, weight * F(fixed16::value_weight(less_v))};
    }
};

} // namespace hw4::cpu
