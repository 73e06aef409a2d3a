// The contracts "fixed" and "fixed16" as one thread with plain loops, in the order src/contracts/fixed/forward.h and
// fixed16/forward.h state it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "src/contracts/contract.h"
#include "src/contracts/fixed/rules.h"
#include "src/contracts/fma_clones.h"

namespace hw4 {
namespace {

using namespace fixed;

constexpr int kQueryBlock = 32; // rows that share a pass over the keys; changes speed, never bytes

// The numbers of one group, [rows][d], as digits by place, the highest first.
template <class Rules>
struct Digits {
    int exponent = 0;
    std::vector<int8_t> place[Rules::kDigits];
};

float largest_of(const float* x, size_t count) {
    float largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
    return largest;
}

template <class Rules>
Digits<Rules> digits_of(const float* x, size_t count, int exponent, Factors scale) {
    Digits<Rules> digits;
    digits.exponent = exponent;
    for (auto& place : digits.place) place.resize(count);
    for (size_t i = 0; i < count; ++i) {
        const uint32_t bytes = Rules::Numbers::digit_bytes(quantised(x[i], scale));
        for (int place = 0; place < Rules::kDigits; ++place)
            digits.place[place][i] = static_cast<int8_t>(digit(bytes, Rules::kDigits - 1 - place));
    }
    return digits;
}

template <class Rules>
std::vector<Digits<Rules>> digits_in_tiles(const float* x, int64_t n, int64_t d) {
    std::vector<Digits<Rules>> tiles;
    for (int64_t j = 0; j < n; j += Rules::kTileKeys) {
        const auto count = static_cast<size_t>(std::min<int64_t>(Rules::kTileKeys, n - j) * d);
        const int exponent = exponent_of_tile<Rules::kDigits>(largest_of(x + j * d, count));
        tiles.push_back(digits_of<Rules>(x + j * d, count, exponent, tile_factors(exponent)));
    }
    return tiles;
}

template <class Rules>
int least_exponent(const std::vector<Digits<Rules>>& tiles) {
    int least = std::numeric_limits<int>::max();
    for (const Digits<Rules>& tile : tiles) least = std::min(least, tile.exponent);
    return least;
}

// What a query row carries from tile to tile.
template <class Rules>
struct Row {
    Digits<Rules> q;
    float reference;
    float l[kLanes];
    float h;
    std::vector<float> o;
};

template <class Rules>
Row<Rules> start_row(const float* q, int64_t d, float factor, int least_k_exponent) {
    std::vector<float> row(q, q + d);
    for (float& x : row) x = scaled_query(x, factor);
    const int exponent = Rules::row_exponent(largest_of(row.data(), row.size()), least_k_exponent);
    return {digits_of<Rules>(row.data(), row.size(), exponent, factors(exponent)),
            -std::numeric_limits<float>::infinity(),
            {},
            0,
            std::vector<float>(static_cast<size_t>(d))};
}

template <class Rules>
int32_t score(const Digits<Rules>& q, const Digits<Rules>& k, int64_t key, int64_t d) {
    const int8_t* high = k.place[0].data() + key * d;
    const int8_t* next = k.place[1].data() + key * d;
    const int8_t* low = k.place[Rules::kDigits - 1].data() + key * d;
    int32_t l[Rules::kDigits] = {};
    for (int64_t t = 0; t < d; ++t) {
        const auto i = static_cast<size_t>(t);
        l[0] += q.place[0][i] * high[t];
        l[1] += q.place[0][i] * next[t] + q.place[1][i] * high[t];
        if constexpr (Rules::kDigits == 3)
            l[2] += q.place[0][i] * low[t] + q.place[1][i] * next[t] + q.place[2][i] * high[t];
    }
    return Rules::combined(l);
}

// y of every column, from the weights of the tile's keys.
template <class Rules>
void weighted_values(const int32_t* p, const Digits<Rules>& v, int keys, int64_t d, int32_t* y) {
    constexpr int kHighest = Rules::kDigits - 1;
    std::vector<int32_t> sums(static_cast<size_t>(Rules::kDigits * d));
    int32_t* l0 = sums.data();
    int32_t* l1 = l0 + d;
    for (int j = 0; j < keys; ++j)
        for (int64_t x = 0; x < d; ++x) {
            const auto i = static_cast<size_t>(j * d + x);
            const int high = weight_digit(p[j], kHighest);
            const int next = weight_digit(p[j], kHighest - 1);
            l0[x] += high * v.place[0][i];
            l1[x] += high * v.place[1][i] + next * v.place[0][i];
            if constexpr (Rules::kDigits == 3)
                l1[d + x] += high * v.place[2][i] + next * v.place[1][i] + weight_digit(p[j], 0) * v.place[0][i];
        }
    for (int64_t x = 0; x < d; ++x) {
        int32_t l[Rules::kDigits];
        for (int i = 0; i < Rules::kDigits; ++i) l[i] = l0[i * d + x];
        y[x] = Rules::combined(l);
    }
}

// One row against one tile. The row sees the first `keys` keys, at least one.
template <class Rules>
HW4_FMA_CLONES void attend_tile(Row<Rules>& row, const Digits<Rules>& k, const Digits<Rules>& v, int keys, int64_t d,
                                int least_v_exponent) {
    int32_t x[Rules::kTileKeys] = {};
    for (int j = 0; j < keys; ++j) x[j] = score(row.q, k, j, d);

    const auto unit = Rules::unit_of(row.q.exponent, k.exponent);
    for (int j = 0; j < keys; ++j) x[j] >>= unit.cut;
    const auto top = Rules::top_of(*std::max_element(x, x + keys), unit);
    const float m = Rules::reference_of(top, unit);
    int32_t p[Rules::kTileKeys];
    int32_t sums[kLanes] = {};
    for (int j = 0; j < keys; ++j) {
        p[j] = Rules::weight_of(x[j], top, unit);
        sums[lane_of(j)] += p[j];
    }
    std::vector<int32_t> y(static_cast<size_t>(d));
    weighted_values(p, v, keys, d, y.data());

    if (Rules::raises(m, row.reference)) {
        const float alpha = Rules::rescale(row.reference - m);
        for (float& l : row.l) l *= alpha;
        row.h *= alpha;
        for (float& o : row.o) o *= alpha;
        row.reference = m;
    }
    const TileWeights weights = Rules::tile_weights(top, m - row.reference, least_v_exponent - v.exponent);
    row.h += weights.values;
    for (int i = 0; i < kLanes; ++i) row.l[i] = fused(static_cast<float>(sums[i]), weights.sums, row.l[i]);
    for (size_t i = 0; i < row.o.size(); ++i) row.o[i] = fused(static_cast<float>(y[i]), weights.values, row.o[i]);
}

// Stores the row's output, and its statistics if they are wanted.
template <class Rules>
void store_row(const Row<Rules>& row, Factors scale, float* out, RowStatistics* statistics) {
    const float l = sum_of_lanes(row.l);
    const float inverse = l > 0 ? 1.0f / l : 0.0f;
    for (const float o : row.o) *out++ = fixed_result(o, row.h, inverse, scale);
    if (statistics != nullptr) *statistics = l > 0 ? RowStatistics{row.reference, 0, l} : RowStatistics{};
}

template <class Rules>
void forward(const UnitOperands& unit) {
    const auto [q, k, v] = std::tuple(unit.in[0], unit.in[1], unit.in[2]);
    float* out = unit.out[0];
    const int64_t d = unit.dim;
    const float factor = query_factor(scale_for(unit.key_dim(), unit.scale).c);
    const std::vector<Digits<Rules>> k_tiles = digits_in_tiles<Rules>(k, unit.keys, d);
    const std::vector<Digits<Rules>> v_tiles = digits_in_tiles<Rules>(v, unit.keys, d);
    const int least_k_exponent = least_exponent(k_tiles);
    const int least_v_exponent = least_exponent(v_tiles);
    const Factors result_scale = result_factors(Rules::kUnitBits - least_v_exponent);
    for (int64_t first_row = 0; first_row < unit.queries; first_row += kQueryBlock) {
        std::vector<Row<Rules>> rows;
        for (int64_t i = first_row; i < std::min(first_row + kQueryBlock, unit.queries); ++i)
            rows.push_back(start_row<Rules>(q + i * d, d, factor, least_k_exponent));
        for (size_t tile = 0; tile < k_tiles.size(); ++tile) {
            for (size_t i = 0; i < rows.size(); ++i) {
                const int64_t seen = unit.visible(first_row + static_cast<int64_t>(i));
                const auto keys =
                    std::min<int64_t>(Rules::kTileKeys, seen - static_cast<int64_t>(tile) * Rules::kTileKeys);
                if (keys > 0)
                    attend_tile(rows[i], k_tiles[tile], v_tiles[tile], static_cast<int>(keys), d, least_v_exponent);
            }
        }
        for (size_t i = 0; i < rows.size(); ++i) {
            const int64_t query = first_row + static_cast<int64_t>(i);
            store_row(rows[i], result_scale, out + query * d, unit.statistics_of(query));
        }
    }
}

} // namespace

void fixed_forward(const UnitOperands& unit) { forward<FixedRules>(unit); }
void fixed16_forward(const UnitOperands& unit) { forward<Fixed16Rules>(unit); }

} // namespace hw4
