// The contracts "fixed" and "fixed16" as types: code for both is a template over them. Every step has the same name as
// in the contracts' headers, which define it.
#pragma once

#include "src/contracts/fixed/forward.h"
#include "src/contracts/fixed16/forward.h"

namespace hw4 {

// The factors of a tile in the sums of a row.
struct TileWeights {
    float sums;   // of S_i in l_i
    float values; // of y in o, and of 1 in h
};

struct FixedRules {
    static constexpr int kDigits = fixed::kDigits;
    static constexpr int kTileKeys = fixed::kTileKeys;
    static constexpr int kUnitBits = 24; // combined() is in units of 2^this
    using Numbers = fixed::Numbers<kDigits>;
    using Unit = fixed::Unit;
    using Top = fixed::TileTop; // a tile's weights are relative to it

    static HW4_INLINE int row_exponent(float largest, int /*least_k_exponent*/) { return fixed::exponent_for(largest); }
    static HW4_INLINE int32_t combined(const int32_t (&l)[kDigits]) { return fixed::combined(l[0], l[1], l[2]); }
    static HW4_INLINE Unit unit_of(int q_exponent, int k_exponent) { return fixed::unit_of(q_exponent, k_exponent); }

    static HW4_INLINE Top top_of(int32_t largest_x, Unit unit) { return fixed::tile_top(largest_x, unit); }
    static HW4_INLINE float reference_of(Top top, Unit unit) { return fixed::tile_reference(top, unit); }
    static HW4_INLINE int32_t weight_of(int32_t x, Top top, Unit unit) { return fixed::weight_of(x, top, unit); }

    static HW4_INLINE bool raises(float m, float row_reference) { return fixed::raises(m, row_reference); }
    // The factor for sums when the reference changes by `less`, a number below 0.
    static HW4_INLINE float rescale(float less) { return power_of_two(less); }
    static HW4_INLINE TileWeights tile_weights(Top top, float lead, int less_v) {
        const float part = fixed::quarter_power(top.quarters);
        return {part * power_of_two(lead), part * power_of_two(lead + static_cast<float>(less_v))};
    }
};

struct Fixed16Rules {
    static constexpr int kDigits = fixed16::kDigits;
    static constexpr int kTileKeys = fixed16::kTileKeys;
    static constexpr int kUnitBits = 16;
    using Numbers = fixed16::Numbers;
    using Unit = fixed16::Unit;
    using Top = int32_t; // the largest score

    static HW4_INLINE int row_exponent(float largest, int least_k_exponent) {
        return fixed16::row_exponent(largest, least_k_exponent);
    }
    static HW4_INLINE int32_t combined(const int32_t (&l)[kDigits]) { return fixed16::combined(l[0], l[1]); }
    static HW4_INLINE Unit unit_of(int q_exponent, int k_exponent) { return fixed16::unit_of(q_exponent, k_exponent); }

    static HW4_INLINE Top top_of(int32_t largest_x, Unit) { return largest_x; }
    static HW4_INLINE float reference_of(Top top, Unit unit) { return static_cast<float>(top) * unit.value; }
    static HW4_INLINE int32_t weight_of(int32_t x, Top top, Unit unit) {
        const int32_t exponent = fixed16::weight_exponent(x, top, unit);
        return fixed16::weight_at(exponent, fraction_at(exponent));
    }

    static HW4_INLINE bool raises(float m, float row_reference) { return fixed16::raises(m, row_reference); }
    static HW4_INLINE float rescale(float less) {
        const int32_t exponent = fixed16::lead_exponent(less);
        return fixed16::tile_weight(exponent, fraction_at(exponent));
    }
    static HW4_INLINE TileWeights tile_weights(Top, float lead, int less_v) {
        const float weight = rescale(lead);
        return {weight, weight * fixed16::value_weight(less_v)};
    }

private:
    static HW4_INLINE uint32_t fraction_at(int32_t exponent) {
        return fixed16::kExp2Table.fraction[exponent & (fixed16::kTableSize - 1)];
    }
};

} // namespace hw4
